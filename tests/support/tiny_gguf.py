"""Write a tiny llama model with random weights, which llama.cpp's server answers with nonsense words.

Run with the interpreter of the lab environment: `python tests/support/tiny_gguf.py OUT.gguf [WIDTH [LAYERS [KIND]]]`.
KIND `nan` gives broken weights, `stop` a model whose first token is always the end. Always the same bytes.
"""

from __future__ import annotations

import sys
from itertools import product

import gguf
import numpy as np

WORDS = ["".join(pair) for pair in product(("ka", "lo", "mi", "ru", "te", "su", "no", "pi"), repeat=2)]
HEADS, KV_HEADS, CONTEXT = 4, 2, 8192
UNKNOWN, START, STOP = 0, 1, 2
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def _vocabulary() -> tuple[list[bytes], list[float], list[int]]:
    kind = gguf.TokenType
    entries: list[tuple[str, float, int]] = [
        ("<unk>", 0.0, kind.UNKNOWN),
        ("<s>", 0.0, kind.CONTROL),
        ("</s>", 0.0, kind.CONTROL),
    ]
    entries += [(f"<0x{byte:02X}>", 0.0, kind.BYTE) for byte in range(256)]
    entries += [(chr(code), -1000.0 - code, kind.NORMAL) for code in range(33, 127)]
    entries += [("▁" + word, -float(rank), kind.NORMAL) for rank, word in enumerate(WORDS)]
    return (
        [text.encode() for text, _, _ in entries],
        [score for _, score, _ in entries],
        [int(t) for _, _, t in entries],
    )


def write(path: str, width: int = 128, layers: int = 4, kind: str = "") -> None:
    """Write the model file."""
    random = np.random.default_rng(11)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    tokens, scores, types = _vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(width * 3)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(START)
    writer.add_eos_token_id(STOP)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_chat_template(TEMPLATE)
    output = weights(len(tokens), width)
    output[: len(tokens) - len(WORDS)] = 0.0  # only words are ever likely, so that a reply does not stop early
    if kind == "nan":
        output[:] = np.nan
    writer.add_tensor("token_embd.weight", weights(len(tokens), width) * 10)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    narrow = width // HEADS * KV_HEADS
    shapes = {
        "attn_q": (width, width), "attn_k": (narrow, width), "attn_v": (narrow, width), "attn_output": (width, width),
        "ffn_gate": (width * 3, width), "ffn_up": (width * 3, width), "ffn_down": (width, width * 3),
    }  # fmt: skip
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, np.float32))
        for name, shape in shapes.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(*shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    out, width, layers, kind = [*sys.argv[1:], "", "", ""][:4]
    write(out, int(width or 128), int(layers or 4), kind)
