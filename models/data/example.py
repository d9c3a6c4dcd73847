"""What is one training example?

A question, every answer that counts as right, the family it belongs to and how hard it is. A
family is a function from a random generator to an example; nothing else about it is known here.

Invariant: whether an example is held out depends on its question alone (a hash), never on the
order of generation, so a held-out question cannot slip into training through another seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

HELD_OUT_ONE_IN = 16
"""One question in this many is kept for evaluation and never trained on."""


@dataclass(frozen=True)
class Example:
    """One question with the answers that count as right; the first is the preferred one."""

    family: str
    question: str
    answers: tuple[str, ...]
    level: int = 1


class Family(Protocol):
    """Draws one example; the same generator state gives the same example."""

    def __call__(self, rng: Random) -> Example: ...


def is_held_out(question: str) -> bool:
    """Says whether a question belongs to the evaluation set."""
    digest = hashlib.sha256(question.encode()).digest()
    return int.from_bytes(digest[:4], "big") % HELD_OUT_ONE_IN == 0


def fill(rng: Random, templates: Sequence[str], **values: object) -> str:
    """Picks one template and fills in the values."""
    return rng.choice(templates).format(**values)
