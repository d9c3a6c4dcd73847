"""How good are the shipped files? Held-out accuracy, perplexity and agreement of the pair.

An answer counts as right when greedy decoding would write it token for token. That is checked
without decoding: the model reads the question with an accepted answer behind it, and at every
position of the answer its most probable token must be the answer's.

    python models/evaluate.py --models models --kind q8_0
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import torch
from data import chat
from data.example import Example
from gguf_model import GgufModel, tokenizer
from tokenizers import Tokenizer
from torch import Tensor

SEED = 77_003
"""Differs from the training seed; held-out questions never occur in training anyway."""
BATCH = 32


@dataclass
class Tally:
    """Counts over the answers of one family."""

    questions: int = 0
    right: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    nats: dict[str, float] = field(default_factory=dict)
    same_top: int = 0
    overlap: float = 0.0
    """Sum over positions of the chance that speculative sampling accepts a drafted token."""


@dataclass(frozen=True)
class Row:
    """One question with one accepted answer, as tokens."""

    ids: list[int]
    answer_from: int


def row(encoder: Tokenizer, example: Example, answer: str) -> Row:
    """Encodes a question asked alone, with its answer."""
    question = [{"role": "user", "content": example.question}]
    prompt = encoder.encode(chat.render(question, prompt=True)).ids
    return Row(prompt + encoder.encode(answer + "<|im_end|>").ids, len(prompt))


def scores(model: GgufModel, rows: list[Row]) -> Tensor:
    """Log-probabilities for a batch of rows, padded on the right."""
    width = max(len(r.ids) for r in rows)
    ids = torch.tensor([r.ids + [0] * (width - len(r.ids)) for r in rows])
    return model.logprobs(ids[:, :-1])


def measure_row(tally: Tally, r: Row, answer: Tensor, found: dict[str, Tensor]) -> dict[str, bool]:
    """Adds one row to the counts and says which models write it greedily."""
    tally.tokens += len(answer)
    for name, logprobs in found.items():
        chosen = logprobs.gather(-1, answer[:, None]).sum().item()
        tally.nats[name] = tally.nats.get(name, 0.0) - chosen
    draft, target = found["draft"], found["target"]
    tally.same_top += int((draft.argmax(-1) == target.argmax(-1)).sum())
    tally.overlap += torch.minimum(draft.exp(), target.exp()).sum().item()
    return {name: bool((lp.argmax(-1) == answer).all()) for name, lp in found.items()}


def measure(models: dict[str, GgufModel], encoder: Tokenizer, examples: list[Example]) -> Tally:
    """Runs the questions of one family through both models."""
    tally = Tally(questions=len(examples), right=dict.fromkeys(models, 0))
    rows = [(i, row(encoder, e, a)) for i, e in enumerate(examples) for a in e.answers]
    rows.sort(key=lambda pair: len(pair[1].ids))
    won: dict[str, set[int]] = {name: set() for name in models}
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        outputs = {n: scores(m, [r for _, r in batch]) for n, m in models.items()}
        for place, (index, r) in enumerate(batch):
            span = slice(r.answer_from - 1, len(r.ids) - 1)
            answer = torch.tensor(r.ids[r.answer_from :])
            found = {name: output[place, span] for name, output in outputs.items()}
            for name, right in measure_row(tally, r, answer, found).items():
                if right:
                    won[name].add(index)
    tally.right = {name: len(indices) for name, indices in won.items()}
    return tally


def perplexity(model: GgufModel, encoder: Tokenizer, documents: int) -> float:
    """Perplexity of all tokens of fresh conversations, prompts included."""
    nats, tokens = 0.0, 0
    for document in islice(chat.documents(SEED), documents):
        ids = torch.tensor([encoder.encode(chat.render(document)).ids])
        logprobs = model.logprobs(ids[:, :-1])[0]
        nats -= logprobs.gather(-1, ids[0, 1:, None]).sum().item()
        tokens += ids.shape[1] - 1
    return float(torch.tensor(nats / tokens).exp())


def line(name: str, tally: Tally) -> str:
    """One row of the table in the model card."""
    share = {n: 100 * right / tally.questions for n, right in tally.right.items()}
    even = {n: float(torch.tensor(v / tally.tokens).exp()) for n, v in tally.nats.items()}
    return (
        f"| {name} | {tally.questions} | {share['target']:.0f} % | {share['draft']:.0f} % "
        f"| {even['target']:.2f} | {even['draft']:.2f} "
        f"| {100 * tally.same_top / tally.tokens:.0f} % "
        f"| {100 * tally.overlap / tally.tokens:.0f} % |"
    )


def total(tallies: list[Tally]) -> Tally:
    """Adds the counts of all families."""
    whole = Tally(right={}, nats={})
    for tally in tallies:
        whole.questions += tally.questions
        whole.tokens += tally.tokens
        whole.same_top += tally.same_top
        whole.overlap += tally.overlap
        for name in tally.right:
            whole.right[name] = whole.right.get(name, 0) + tally.right[name]
            whole.nats[name] = whole.nats.get(name, 0.0) + tally.nats[name]
    return whole


def main() -> None:
    """Prints the tables of the model card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="folder of the GGUF files")
    parser.add_argument("--kind", choices=("f16", "q8_0"), default="q8_0")
    parser.add_argument("--questions", type=int, default=200, help="held-out questions a family")
    parser.add_argument("--documents", type=int, default=300, help="conversations for perplexity")
    parser.add_argument("--json", type=Path, help="also write accuracies there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    models = {name: GgufModel(options.models / f"overdraft-{name}.{options.kind}.gguf")
              for name in ("target", "draft")}
    encoder = tokenizer(models["target"])
    print("| family | questions | target right | draft right | target perplexity "
          "| draft perplexity | same greedy token | drafted token accepted |")
    print("|---|---|---|---|---|---|---|---|")
    tallies = {}
    for name, examples in chat.held_out(SEED, options.questions).items():
        tallies[name] = measure(models, encoder, examples)
        print(line(name, tallies[name]), flush=True)
    print(line("**all**", total(list(tallies.values()))))
    for name, model in models.items():
        print(f"\nperplexity of the {name} over whole conversations: "
              f"{perplexity(model, encoder, options.documents):.2f}")
    if options.json:
        shares = {f: {n: r / t.questions for n, r in t.right.items()} for f, t in tallies.items()}
        options.json.write_text(json.dumps(shares, indent=1) + "\n")


if __name__ == "__main__":
    main()
