"""Prompts for a service of which no requests are given: made up from a seed, of mixed or of recorded lengths."""

from __future__ import annotations

import random

import numpy as np

from gpuyield.errors import DeclarationError
from gpuyield.measure.requests import RequestLine
from gpuyield.model.measure import NANOS

COUNT = 64
_MAX_TOKENS = (16, 32, 64, 128)
_WORDS = (32, 64, 128, 256, 512)
_SUBJECTS = ("the tides", "a bicycle", "bread", "prime numbers", "a lighthouse", "glass", "the violin", "rice fields")
_FILLER = ("wind", "water", "stone", "light", "paper", "river", "garden", "bridge", "winter", "market", "harbour")


def made_up_prompts(protocol: str, *, seed: int) -> tuple[RequestLine, ...]:
    """Requests for a protocol; the same seed makes the same."""
    rng = random.Random(f"prompts {seed}")
    lines = []
    for number in range(COUNT):
        words = " ".join(rng.choice(_FILLER) for _ in range(rng.choice(_WORDS)))
        text = f"Explain {rng.choice(_SUBJECTS)} to a friend. Notes: {words}."
        max_tokens = None if protocol == "embeddings" else rng.choice(_MAX_TOKENS)
        if protocol == "http":
            lines.append(RequestLine(id=f"made-up-{number}", kind="body", content={"prompt": text}))
        else:
            lines.append(RequestLine(id=f"made-up-{number}", kind="prompt", content=text, max_tokens=max_tokens))
    return tuple(lines)


LARGEST_LOAD = 400 * 2**20
"""Bytes of made-up prompts; a trace whose prompts take more is to be shortened."""

_SHORT = ("the", "of", "and", "to", "in", "a", "is", "it", "on", "as", "at", "be", "by", "or", "an", "we", "so", "no")
"""Words that are one token each to every common tokenizer."""


def prompts_of_lengths(
    protocol: str, prompt_tokens: NANOS, output_tokens: NANOS, *, seed: int, where: str
) -> tuple[RequestLine, ...]:
    """A request for each pair of lengths, in their order: so many short words, no two beginning alike.

    Prompts that began alike would be served from a prefix cache. An output length is the most that may come: a model
    that ends its answers earlier gives fewer. -1 is unknown: a prompt of 128 words, an answer as long as it likes.

    Raises:
        DeclarationError: They would not fit into memory.
    """
    rng = random.Random(f"lengths {seed}")
    wanted = np.where(prompt_tokens >= 0, np.maximum(prompt_tokens, 1), 128).tolist()
    most = max(wanted, default=1)
    words = [rng.choice(_SHORT) for _ in range(most + 4096)]
    ends = np.cumsum([len(word) + 1 for word in words]).tolist()
    size = int(sum(wanted) * ends[-1] / len(words))
    if size > LARGEST_LOAD:
        raise DeclarationError(
            f"its {len(wanted):,} prompts would take {size // 2**20:,} MiB.", where=where, fix="Give a part of it."
        )
    filler = " ".join(words)
    lines = []
    for number, (length, answer) in enumerate(zip(wanted, output_tokens.tolist(), strict=True)):
        first = rng.randrange(4096)
        begin, end = (ends[first - 1] if first else 0), ends[first + length - 1] - 1
        # The number is a word of its own, in place of the first one.
        text = f"{number} {filler[begin:end].partition(' ')[2]}".rstrip()
        max_tokens = None if protocol == "embeddings" or answer < 0 else max(1, answer)
        if protocol == "http":
            content = {"prompt": text} | ({} if max_tokens is None else {"max_tokens": max_tokens})
            lines.append(RequestLine(id=f"recorded-{number}", kind="body", content=content))
        else:
            lines.append(RequestLine(id=f"recorded-{number}", kind="prompt", content=text, max_tokens=max_tokens))
    return tuple(lines)
