"""What do the two models compute?

The Llama architecture as GGUF files know it: RMSNorm, rotary positions on neighbouring pairs,
grouped-query attention, SwiGLU, no biases, an output projection of its own. This file is the
training side: weights in float32, arithmetic in bfloat16.

Invariant: row lengths of every matrix are multiples of 256, so that K-quants apply.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The size of a model."""

    layers: int
    hidden: int = 256
    feed_forward: int = 768
    heads: int = 4
    kv_heads: int = 2
    vocabulary: int = 2048
    context: int = 2048
    rope_base: float = 10_000.0
    epsilon: float = 1e-5

    @property
    def head_size(self) -> int:
        """The width of one attention head."""
        return self.hidden // self.heads


SHAPES = {"target": Shape(layers=8, feed_forward=512), "draft": Shape(layers=2, feed_forward=256)}


def rope_table(shape: Shape) -> Tensor:
    """Cosines and sines for each position and pair, as [2, context, head_size / 2]."""
    pairs = torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size
    angles = torch.outer(torch.arange(shape.context).float(), shape.rope_base**-pairs)
    return torch.stack((angles.cos(), angles.sin()))


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Rotates pairs (2i, 2i + 1) of x [batch, time, heads, head_size]."""
    cos, sin = table[:, : x.shape[1]].to(x.dtype).unsqueeze(2)
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """Multiplies in bfloat16."""
    return F.linear(x, weight.to(x.dtype))


FUSED_FROM = 400
"""Number of positions from which the fused attention operator is the faster one."""


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of grouped heads, all [batch, heads, time, head_size].

    Written out for short texts: on a CPU the fused operator's backward pass costs more there
    than everything else in the layer together.
    """
    batch, heads, time, size = q.shape
    group = heads // k.shape[1]
    if time > FUSED_FROM:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    rows = q.reshape(batch * k.shape[1], group * time, size)
    keys, values = k.reshape(-1, time, size), v.reshape(-1, time, size)
    scores = torch.bmm(rows, keys.transpose(1, 2)).unflatten(1, (group, time))
    future = torch.ones(time, time, dtype=torch.bool).triu(1)
    scores = (scores * size**-0.5).masked_fill(future, float("-inf"))
    weights = torch.softmax(scores, -1).flatten(1, 2)
    return torch.bmm(weights, values).reshape(batch, heads, time, size)


class Layer(nn.Module):
    """One transformer block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        kv_size = shape.kv_heads * shape.head_size
        self.attention_norm = nn.Parameter(torch.ones(shape.hidden))
        self.qkv = nn.Parameter(torch.empty(shape.hidden + 2 * kv_size, shape.hidden))
        self.out = nn.Parameter(torch.empty(shape.hidden, shape.hidden))
        self.ffn_norm = nn.Parameter(torch.ones(shape.hidden))
        self.gate_up = nn.Parameter(torch.empty(2 * shape.feed_forward, shape.hidden))
        self.down = nn.Parameter(torch.empty(shape.hidden, shape.feed_forward))

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Normalizes in float32, hands on bfloat16."""
        return F.rms_norm(x, (x.shape[-1],), weight, self.shape.epsilon).bfloat16()

    def attend(self, x: Tensor, table: Tensor) -> Tensor:
        """Causal attention of x [batch, time, hidden] to itself."""
        s = self.shape
        heads = matmul(x, self.qkv).unflatten(-1, (s.heads + 2 * s.kv_heads, s.head_size))
        q, k, v = heads.split((s.heads, s.kv_heads, s.kv_heads), 2)
        q, k = rotate(q, table).transpose(1, 2), rotate(k, table).transpose(1, 2)
        mixed = attention(q, k, v.transpose(1, 2))
        return matmul(mixed.transpose(1, 2).flatten(-2), self.out)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """Adds attention and feed-forward to the residual stream x (float32)."""
        x = x + self.attend(self.norm(x, self.attention_norm), table)
        gate, up = matmul(self.norm(x, self.ffn_norm), self.gate_up).chunk(2, -1)
        return x + matmul(F.silu(gate) * up, self.down)


class Llama(nn.Module):
    """A small Llama."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocabulary, shape.hidden))
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.final_norm = nn.Parameter(torch.ones(shape.hidden))
        self.output = nn.Parameter(torch.zeros(shape.vocabulary, shape.hidden))
        self.register_buffer("rope", rope_table(shape), persistent=False)
        self.initialize()

    def initialize(self) -> None:
        """Draws the matrices; those that write to the residual stream start at zero.

        The embedding starts as large as what the layers will add. Were it small (as it must be
        where it is also the output projection), the layers would drown which token stands where,
        and copying from the context would be learned late or never.
        """
        nn.init.normal_(self.embedding)
        for layer in self.layers:
            nn.init.normal_(layer.qkv, std=layer.qkv.shape[1] ** -0.5)
            nn.init.normal_(layer.gate_up, std=layer.gate_up.shape[1] ** -0.5)
            nn.init.zeros_(layer.out)
            nn.init.zeros_(layer.down)

    def forward(self, ids: Tensor) -> Tensor:
        """Turns ids [batch, time] into normalized hidden states (bfloat16)."""
        x = F.embedding(ids, self.embedding)
        for layer in self.layers:
            x = layer(x, self.rope)
        return F.rms_norm(x, (x.shape[-1],), self.final_norm, self.shape.epsilon).bfloat16()

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores every token for the given hidden states."""
        return matmul(hidden, self.output)
