"""Prompts for a service of which no requests are given: made up from a seed, of mixed lengths."""

from __future__ import annotations

import random

from gpuyield.measure.requests import RequestLine

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
