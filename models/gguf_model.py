"""What does a GGUF file of the `llama` architecture compute, said as plainly as possible?

An implementation in float32 PyTorch that shares nothing with the engine or with the training
code: every tensor is widened to float32, keys and values are never rounded, nothing is cached.
It is the yardstick for the engine and for the figures of the model card.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

QWEN2_SPLIT = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class GgufModel:
    """The weights and the tokenizer of one file."""

    def __init__(self, path: Path) -> None:
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.weights = {
            t.name.removesuffix(".weight"): torch.tensor(
                gguf.quants.dequantize(t.data, t.tensor_type)
            ).float()
            for t in reader.tensors
        }
        self.layers = self.fields["llama.block_count"]
        self.heads = self.fields["llama.attention.head_count"]
        self.kv_heads = self.fields["llama.attention.head_count_kv"]
        self.epsilon = self.fields["llama.attention.layer_norm_rms_epsilon"]
        self.end = self.fields["tokenizer.ggml.eos_token_id"]

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Divides by the root mean square and scales."""
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon)
        return x * scale * self.weights[name]

    def rotate(self, x: Tensor) -> Tensor:
        """Rotates neighbouring pairs of x [batch, time, heads, size] by their position."""
        size = x.shape[-1]
        base = self.fields["llama.rope.freq_base"]
        speeds = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), speeds).float()
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        turned = pairs * torch.polar(torch.ones_like(angles), angles)[:, None, :]
        return torch.view_as_real(turned).flatten(-2)

    def attend(self, x: Tensor, layer: str) -> Tensor:
        """Causal attention with grouped heads."""
        batch, time, _ = x.shape
        q = (x @ self.weights[f"{layer}.attn_q"].T).view(batch, time, self.heads, -1)
        k = (x @ self.weights[f"{layer}.attn_k"].T).view(batch, time, self.kv_heads, -1)
        v = (x @ self.weights[f"{layer}.attn_v"].T).view(batch, time, self.kv_heads, -1)
        group = self.heads // self.kv_heads
        q, k = self.rotate(q), self.rotate(k).repeat_interleave(group, 2)
        v = v.repeat_interleave(group, 2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)
        return mixed @ self.weights[f"{layer}.attn_output"].T

    def feed_forward(self, x: Tensor, layer: str) -> Tensor:
        """SwiGLU."""
        gate = F.silu(x @ self.weights[f"{layer}.ffn_gate"].T)
        up = x @ self.weights[f"{layer}.ffn_up"].T
        return (gate * up) @ self.weights[f"{layer}.ffn_down"].T

    @torch.no_grad()
    def logprobs(self, ids: Tensor) -> Tensor:
        """Log-probabilities of the next token after each position of ids [batch, time]."""
        x = self.weights["token_embd"][ids]
        for i in range(self.layers):
            x = x + self.attend(self.norm(x, f"blk.{i}.attn_norm"), f"blk.{i}")
            x = x + self.feed_forward(self.norm(x, f"blk.{i}.ffn_norm"), f"blk.{i}")
        output = self.weights.get("output", self.weights["token_embd"])
        return (self.norm(x, "output_norm") @ output.T).log_softmax(-1)


def tokenizer(model: GgufModel, special: bool = True) -> Tokenizer:
    """Builds the tokenizer from the file; without `special`, control tokens are mere text."""
    if (pre := model.fields["tokenizer.ggml.pre"]) != "qwen2":
        raise ValueError(f"unknown pre-tokenizer `{pre}`, expected `qwen2`")
    tokens = model.fields["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in model.fields["tokenizer.ggml.merges"]]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    built = Tokenizer(models.BPE(vocabulary, merges))
    built.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    built.decoder = decoders.ByteLevel()
    if special:
        control = int(gguf.TokenType.CONTROL)
        types = model.fields["tokenizer.ggml.token_type"]
        built.add_special_tokens([
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, types) if kind == control
        ])
    return built
