"""How do the models come to copy from their context?

Copying takes two attention heads in a row: one that looks at the previous token, and one that
looks for the places where the current token stood before and reads what followed. Gradient
descent finds this circuit late, after far more text than one CPU can read in an hour, so the
first two layers start with it. Training is free to change it. In the spirit of Trockman and
Kolter, "Mimetic initialization of self-attention layers", 2023.

Everything sits in the first query head and the first key-value head of each of the two layers.
"""

from __future__ import annotations

import torch
from model import Llama, Shape
from torch import Tensor

CONSTANT = 4.0
"""Value of embedding coordinate 0 for every token: what a head needs that looks by position."""
POSITION_GAIN = 1.45
MATCH_GAIN = 2.2
COPY_GAIN = 2.0
OUTPUT_GAIN = 0.05


def projection(shape: Shape) -> Tensor:
    """Random orthonormal rows [head_size, hidden] that ignore coordinate 0."""
    square, _ = torch.linalg.qr(torch.randn(shape.hidden - 1, shape.head_size))
    return torch.cat((torch.zeros(shape.head_size, 1), square.T), 1)


def look_back(shape: Shape) -> tuple[Tensor, Tensor]:
    """Query and key matrices of one head whose score peaks at the previous position.

    The fast half of the rotary pairs gets a constant query, and a key turned ahead by one step.
    """
    fast = shape.head_size // 4
    angles = shape.rope_base ** (-torch.arange(fast) * 2 / shape.head_size)
    query, key = torch.zeros(2, shape.head_size, shape.hidden)
    query[0 : 2 * fast : 2, 0] = POSITION_GAIN
    key[0 : 2 * fast : 2, 0] = POSITION_GAIN * angles.cos()
    key[1 : 2 * fast : 2, 0] = POSITION_GAIN * angles.sin()
    return query, key


def slow_half(matrix: Tensor) -> Tensor:
    """Keeps the rows that rotary positions hardly turn, so that a match is seen from afar."""
    kept = matrix.clone()
    kept[: len(matrix) // 2] = 0
    return kept


@torch.no_grad()
def seed_copying(model: Llama) -> None:
    """Writes the two heads into a freshly initialized model."""
    shape, size = model.shape, model.shape.head_size
    key_at = shape.heads * size
    value_at = key_at + shape.kv_heads * size
    identity, previous, followed, written = (projection(shape) for _ in range(4))
    model.embedding[:, 0] = CONSTANT
    first, second = model.layers[0], model.layers[1]
    query, key = look_back(shape)
    first.qkv[:size], first.qkv[key_at : key_at + size] = query, key
    first.qkv[value_at : value_at + size] = identity
    first.out[:, :size] = previous.T
    second.qkv[:size] = slow_half(identity) * MATCH_GAIN
    second.qkv[key_at : key_at + size] = slow_half(previous) * MATCH_GAIN
    second.qkv[value_at : value_at + size] = followed
    second.out[:, :size] = written.T * COPY_GAIN
    model.output.copy_(model.embedding @ followed.T @ written * OUTPUT_GAIN)
