"""How does a checkpoint become a GGUF file?

Writes each model twice: matrices as F16 and as Q8_0; norms stay F32. Rotary pairs are neighbours
in training already, which is what the `llama` architecture of GGUF means; nothing is permuted.

    python models/export.py --work build/models --out models
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from model import Llama
from tokenizer import END_OF_TEXT, IM_END, PRE_TOKENIZER, SPECIAL
from train import load_model

ARCHITECTURE = "llama"
TYPES = {
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def tensors(model: Llama) -> dict[str, np.ndarray]:
    """Names the weights as GGUF does."""
    shape = model.shape
    q, kv = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    named = {
        "token_embd": model.embedding, "output_norm": model.final_norm, "output": model.output,
    }
    for i, layer in enumerate(model.layers):
        queries, keys, values = layer.qkv.split((q, kv, kv))
        gate, up = layer.gate_up.chunk(2)
        named |= {
            f"blk.{i}.attn_norm": layer.attention_norm, f"blk.{i}.attn_q": queries,
            f"blk.{i}.attn_k": keys, f"blk.{i}.attn_v": values,
            f"blk.{i}.attn_output": layer.out, f"blk.{i}.ffn_norm": layer.ffn_norm,
            f"blk.{i}.ffn_gate": gate, f"blk.{i}.ffn_up": up, f"blk.{i}.ffn_down": layer.down,
        }
    return {f"{name}.weight": t.detach().float().numpy() for name, t in named.items()}


def write_metadata(writer: gguf.GGUFWriter, model: Llama, name: str) -> None:
    """Writes what describes the model and its shape."""
    shape = model.shape
    writer.add_name(f"Overdraft Demo {name.capitalize()}")
    writer.add_organization("Overdraft")
    writer.add_license("apache-2.0")
    writer.add_description(f"The {name} of Overdraft's demo pair, trained on generated text.")
    writer.add_languages(["en"])
    writer.add_vocab_size(shape.vocabulary)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)


def write_tokenizer(writer: gguf.GGUFWriter, path: Path) -> None:
    """Writes the tokenizer, its special tokens and the chat template."""
    bpe = json.loads(path.read_text())["model"]
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].get)
    control, normal = int(gguf.TokenType.CONTROL), int(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZER)
    writer.add_token_list(tokens)
    writer.add_token_types([control if t in SPECIAL else normal for t in tokens])
    writer.add_token_merges([" ".join(pair) for pair in bpe["merges"]])
    writer.add_bos_token_id(END_OF_TEXT)
    writer.add_eos_token_id(IM_END)
    writer.add_pad_token_id(END_OF_TEXT)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def export(model: Llama, name: str, kind: str, work: Path, out: Path) -> Path:
    """Writes one file and returns where it is."""
    matrix_type, file_type = TYPES[kind]
    path = out / f"overdraft-{name}.{kind}.gguf"
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    write_metadata(writer, model, name)
    writer.add_file_type(int(file_type))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    write_tokenizer(writer, work / "tokenizer.json")
    for tensor_name, values in tensors(model).items():
        kept = gguf.GGMLQuantizationType.F32 if values.ndim == 1 else matrix_type
        writer.add_tensor(tensor_name, gguf.quants.quantize(values, kept), raw_dtype=kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--out", type=Path, required=True, help="folder for the GGUF files")
    parser.add_argument("--only", choices=("target", "draft"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in [options.only] if options.only else ["target", "draft"]:
        model = load_model(options.work, name)
        for kind in TYPES:
            path = export(model, name, kind, options.work, options.out)
            print(f"{path} {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
