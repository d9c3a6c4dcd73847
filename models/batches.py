"""How do conversations become batches?

Each document is a row of its own, so attention needs no mask but causality. Rows of similar
length share a micro-batch, which keeps padding low; micro-batches come in random order.

Invariant: the batches of pool n depend on (seed, n) alone, so a run can be resumed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np
import torch
from data import chat
from tokenizer import END_OF_TEXT, answer_mask
from tokenizers import Tokenizer
from torch import Tensor

POOL_DOCUMENTS = 4096
MICRO_BATCH_TOKENS = 2048
PROMPT_WEIGHT = 0.1
"""How much a token of the prompt counts against one of the answer."""


@dataclass(frozen=True)
class Batch:
    """Inputs, the tokens that follow them, and how much each of these counts."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor


def encode(tokenizer: Tokenizer, seed: int, context: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Generates one pool of documents as pairs of ids and loss weights."""
    texts = [chat.render(d) for d in islice(chat.documents(seed), POOL_DOCUMENTS)]
    header = tokenizer.encode("<|im_start|>assistant\n").ids
    pool = []
    for encoding in tokenizer.encode_batch(texts):
        ids = np.array(encoding.ids[: context + 1], dtype=np.int64)
        pool.append((ids, np.where(answer_mask(ids, header), 1.0, PROMPT_WEIGHT)))
    return pool


def pad(rows: list[tuple[np.ndarray, np.ndarray]]) -> Batch:
    """Puts rows of similar length into one rectangle."""
    width = max(len(ids) for ids, _ in rows)
    ids = np.full((len(rows), width), END_OF_TEXT, dtype=np.int64)
    weights = np.zeros((len(rows), width), dtype=np.float32)
    for i, (row, weight) in enumerate(rows):
        ids[i, : len(row)], weights[i, : len(row)] = row, weight
    tokens, counts = torch.from_numpy(ids), torch.from_numpy(weights)
    return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), counts[:, 1:])


def micro_batches(pool: list[tuple[np.ndarray, np.ndarray]], rng: Random) -> list[Batch]:
    """Cuts a pool, sorted by length, into rectangles of about equal size."""
    pool = sorted(pool, key=lambda row: len(row[0]))
    batches, rows = [], []
    for row in pool:
        if rows and (len(rows) + 1) * len(row[0]) > MICRO_BATCH_TOKENS:
            batches.append(pad(rows))
            rows = []
        rows.append(row)
    batches.append(pad(rows))
    rng.shuffle(batches)
    return batches


def stream(tokenizer: Tokenizer, seed: int, context: int) -> Iterator[Batch]:
    """Yields micro-batches without end."""
    pool_index = 0
    while True:
        pool_seed = seed * 1_000_003 + pool_index
        pool = encode(tokenizer, pool_seed, context)
        yield from micro_batches(pool, Random(pool_seed))
        pool_index += 1
