#!/usr/bin/env python3
"""Makes the file that proves that the engine runs what other tools write.

A Llama of random weights is written with the `gguf` package and quantized to Q4_K_M by llama.cpp;
llama.cpp then computes the logits that `tests/model_foreign.rs` compares with. Needs the PyPI
packages `gguf` and `llama-cpp-python` (made with 0.3.36); run it in this folder. The seed is fixed:
the same versions give the same bytes.
"""

import ctypes
import json
import pathlib
import tempfile

import gguf
import llama_cpp
import numpy

LAYERS, WIDTH, HEADS, KV_HEADS, FEED_FORWARD = 2, 256, 4, 2, 512
HEAD = WIDTH // HEADS
CONTEXT = 512
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = "the quick brown fox jumps over the lazy dog and then the other thing that there is in this "
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PROMPT = [12, 300, 7, 41, 299, 258, 64, 65, 66, 301, 80, 260, 33, 5, 271, 9, 120, 280, 44, 257, 90, 2, 77, 290]


def byte_letters():
    """The printable stand-ins that GPT-2's tokenizer uses for bytes, in the order of the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def merges(letters):
    """Joins the most frequent pair of neighbours in TEXT, again and again."""
    words = [[letters[byte] for byte in (" " + word).encode()] for word in TEXT.split()]
    found = []
    for _ in range(48):
        counts = {}
        for word in words:
            for pair in zip(word, word[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            break
        best = max(sorted(counts), key=counts.get)
        found.append(best)
        for word in words:
            at = 0
            while at + 1 < len(word):
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = ["".join(best)]
                at += 1
    return found


def write_f16(path):
    letters = byte_letters()
    pairs = merges(letters)
    tokens = letters + ["".join(pair) for pair in pairs] + SPECIAL
    kinds = [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL)) + [gguf.TokenType.CONTROL] * len(SPECIAL)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Foreign Q4_K_M")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in pairs])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    random = numpy.random.default_rng(20260721)

    def matrix(name, rows, columns, scale=1.0):
        values = random.standard_normal((rows, columns)) * scale / columns**0.5
        writer.add_tensor(name, values.astype(numpy.float16))

    def norm(name):
        writer.add_tensor(name, (1 + 0.1 * random.standard_normal(WIDTH)).astype(numpy.float32))

    matrix("token_embd.weight", len(tokens), WIDTH, scale=WIDTH**0.5)
    for layer in range(LAYERS):
        norm(f"blk.{layer}.attn_norm.weight")
        matrix(f"blk.{layer}.attn_q.weight", WIDTH, WIDTH, scale=2.0)
        matrix(f"blk.{layer}.attn_k.weight", KV_HEADS * HEAD, WIDTH, scale=2.0)
        matrix(f"blk.{layer}.attn_v.weight", KV_HEADS * HEAD, WIDTH)
        matrix(f"blk.{layer}.attn_output.weight", WIDTH, WIDTH)
        norm(f"blk.{layer}.ffn_norm.weight")
        matrix(f"blk.{layer}.ffn_gate.weight", FEED_FORWARD, WIDTH)
        matrix(f"blk.{layer}.ffn_up.weight", FEED_FORWARD, WIDTH)
        matrix(f"blk.{layer}.ffn_down.weight", WIDTH, FEED_FORWARD)
    norm("output_norm.weight")
    matrix("output.weight", len(tokens), WIDTH, scale=3.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize(source, target):
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M
    parameters.nthread = 2
    failed = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters))
    if failed:
        raise SystemExit(f"llama_model_quantize failed with {failed}")


def record(path):
    model = llama_cpp.Llama(model_path=str(path), n_ctx=128, n_threads=2, logits_all=True, verbose=False)
    model.eval(PROMPT)
    logits = numpy.array(model.scores[: len(PROMPT)], dtype=numpy.float64)
    return {
        "made_by": f"llama-cpp-python {llama_cpp.__version__}",
        "prompt": PROMPT,
        "top": [int(row.argmax()) for row in logits],
        "margin": [round(float(best - second), 4) for second, best in numpy.sort(logits)[:, -2:]],
        "logits": [[round(float(value), 4) for value in row] for row in logits[::4]],
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "f16.gguf"
        write_f16(source)
        quantize(source, "foreign-q4_k_m.gguf")
    pathlib.Path("foreign-q4_k_m.json").write_text(json.dumps(record("foreign-q4_k_m.gguf")) + "\n")


if __name__ == "__main__":
    main()
