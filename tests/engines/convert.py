"""A GGUF llama file as a folder in Hugging Face's layout: `convert.py MODEL.gguf FOLDER`.

vLLM loads folders, the repository and public packages carry GGUF files. Weights are dequantized to 32 bits,
rotary rows are put back into halves, and the tokenizer becomes the library's own byte-level BPE, with the
split pattern that the file names and its control tokens marked as special.
"""

import json
import pathlib
import sys

import gguf
import numpy
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

# By `tokenizer.ggml.pre`, as llama.cpp splits.
SPLITS = {
    "qwen2": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "smollm": [
        r"\p{N}",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    ],
}

# Each layer's tensors: GGUF's name, Hugging Face's, and which count of heads its rows are permuted by.
LAYER = [
    ("attn_norm", "input_layernorm", None),
    ("ffn_norm", "post_attention_layernorm", None),
    ("attn_q", "self_attn.q_proj", "heads"),
    ("attn_k", "self_attn.k_proj", "kv_heads"),
    ("attn_v", "self_attn.v_proj", None),
    ("attn_output", "self_attn.o_proj", None),
    ("ffn_gate", "mlp.gate_proj", None),
    ("ffn_up", "mlp.up_proj", None),
    ("ffn_down", "mlp.down_proj", None),
]


class Source:
    """What a GGUF file says."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.heads = self.fields["llama.attention.head_count"]
        self.kv_heads = self.fields["llama.attention.head_count_kv"]
        self.layers = self.fields["llama.block_count"]
        self.tokens = self.fields["tokenizer.ggml.tokens"]
        control = int(gguf.TokenType.CONTROL)
        kinds = self.fields["tokenizer.ggml.token_type"]
        self.control = [(i, t) for i, (t, kind) in enumerate(zip(self.tokens, kinds)) if kind == control]

    def weight(self, name):
        tensor = self.tensors[name]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        return torch.tensor(numpy.ascontiguousarray(values)).float()


def halves(rows, heads):
    """llama.cpp rotates neighbours, Hugging Face the two halves of a head."""
    size = rows.shape[0] // heads
    return rows.view(heads, size // 2, 2, -1).transpose(1, 2).reshape(rows.shape[0], -1)


def weights(source):
    named = {
        "model.embed_tokens.weight": source.weight("token_embd.weight"),
        "model.norm.weight": source.weight("output_norm.weight"),
    }
    if "output.weight" in source.tensors:
        named["lm_head.weight"] = source.weight("output.weight")
    for layer in range(source.layers):
        for theirs, ours, heads in LAYER:
            rows = source.weight(f"blk.{layer}.{theirs}.weight")
            rows = halves(rows, getattr(source, heads)) if heads else rows
            named[f"model.layers.{layer}.{ours}.weight"] = rows.contiguous()
    return named


def config(source):
    field = lambda name: source.fields[f"llama.{name}"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field("embedding_length"),
        "intermediate_size": field("feed_forward_length"),
        "num_hidden_layers": source.layers,
        "num_attention_heads": source.heads,
        "num_key_value_heads": source.kv_heads,
        "head_dim": field("rope.dimension_count"),
        "vocab_size": len(source.tokens),
        "max_position_embeddings": field("context_length"),
        "rms_norm_eps": float(field("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(field("rope.freq_base")),
        "tie_word_embeddings": "output.weight" not in source.tensors,
        "bos_token_id": source.fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": source.fields["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "attention_bias": False,
        "mlp_bias": False,
    }


def tokenizer(source):
    pre = source.fields["tokenizer.ggml.pre"]
    if pre not in SPLITS:
        raise SystemExit(f"`{pre}` is not a split pattern that is known here; expected {', '.join(SPLITS)}")
    merges = [tuple(merge.split(" ")) for merge in source.fields["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE({text: number for number, text in enumerate(source.tokens)}, merges))
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITS[pre]]
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([*splits, bytes_of])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for _, t in source.control])
    return made


def tokenizer_config(source):
    token = lambda kind: source.tokens[source.fields[f"tokenizer.ggml.{kind}_token_id"]]
    added = {
        str(number): {"content": text, "special": True, "normalized": False, "single_word": False,
                      "lstrip": False, "rstrip": False}
        for number, text in source.control
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "pad_token": token("bos"),
        "add_bos_token": bool(source.fields.get("tokenizer.ggml.add_bos_token", False)),
        "clean_up_tokenization_spaces": False,
        "model_max_length": source.fields["llama.context_length"],
        "chat_template": source.fields["tokenizer.chat_template"],
        "added_tokens_decoder": added,
    }


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value, indent=1))


def convert(path, folder):
    source = Source(path)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights(source), folder / "model.safetensors", {"format": "pt"})
    write(folder, "config.json", config(source))
    ids = {f"{kind}_token_id": source.fields[f"tokenizer.ggml.{kind}_token_id"] for kind in ("bos", "eos")}
    write(folder, "generation_config.json", {**ids, "do_sample": False})
    tokenizer(source).save(str(folder / "tokenizer.json"))
    write(folder, "tokenizer_config.json", tokenizer_config(source))
    (folder / "chat_template.jinja").write_text(source.fields["tokenizer.chat_template"])


if __name__ == "__main__":
    convert(sys.argv[1], pathlib.Path(sys.argv[2]))
