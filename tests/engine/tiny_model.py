"""Write a model of random weights as GGUF, small enough to answer at once on one core: `tiny_model.py FILE SEED`.

Runs in the engine's own environment, which has `gguf`. Two layers, 64 wide, a vocabulary of bytes and letters: what it
says is noise, but it is said by a real engine.
"""

from __future__ import annotations

import importlib
import string
import sys
from typing import Any

import numpy as np

WIDTH, INNER, LAYERS, HEADS, CONTEXT = 64, 128, 2, 4, 2048
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def main() -> None:
    gguf: Any = importlib.import_module("gguf")
    path, seed = sys.argv[1:]
    tokens = vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text, _ in tokens])
    writer.add_token_scores([-float(place) for place in range(len(tokens))])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, values in weights(len(tokens), int(seed)).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocabulary() -> list[tuple[str, int]]:
    """Pieces of text with their kinds, as a SentencePiece model has them."""
    special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    letters = string.ascii_letters + string.digits + ".,:;!?-'\"()"
    pairs = [f"\u2581{letter}" for letter in letters]
    return [
        *special,
        *((f"<0x{value:02X}>", BYTE) for value in range(256)),
        *((text, NORMAL) for text in ["\u2581", *letters, *pairs]),
    ]


def weights(words: int, seed: int) -> dict[str, Any]:
    """Every tensor of the model. Its end is never the likeliest word, so that answers are as long as they may be."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    ones = np.ones(WIDTH, dtype=np.float32)
    found = {"token_embd.weight": drawn(words, WIDTH), "output_norm.weight": ones, "output.weight": drawn(words, WIDTH)}
    found["output.weight"][:259] *= 0.01
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        found |= {f"{block}.{name}_norm.weight": ones for name in ("attn", "ffn")}
        found |= {f"{block}.attn_{name}.weight": drawn(WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
        found |= {f"{block}.ffn_{name}.weight": drawn(INNER, WIDTH) for name in ("gate", "up")}
        found[f"{block}.ffn_down.weight"] = drawn(WIDTH, INNER)
    return found


if __name__ == "__main__":
    main()
