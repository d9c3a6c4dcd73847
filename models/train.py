"""Trains the target or the draft model from nothing.

The learning rate is constant after a short warm-up and falls linearly to zero in the second half,
so a run may be cut short or lengthened while it goes on: write the new number of steps into
`WORK/NAME.steps`. A checkpoint holds everything needed to go on from it; run the same command
again. With a teacher, half of the loss is to imitate what the teacher expects.

    python models/train.py --model target --work build/models --compile
    python models/train.py --model draft --work build/models --compile --until 1500
    python models/train.py --model draft --work build/models --compile --teacher target
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from batches import Batch, stream
from copying import seed_copying
from model import SHAPES, Llama, Shape
from optimizer import optimizers
from tokenizer import load
from torch import Tensor

SEED = 20_251
MICRO_BATCHES_A_STEP = 2
WARM_UP_STEPS = 60
CHECKPOINT_EVERY = 100
DEFAULT_STEPS = {"target": 2100, "draft": 1900}
DECAY_SHARE = 0.5
"""The part of the run in which the learning rate falls to zero."""


@dataclass(frozen=True)
class Run:
    """What one training run needs to know."""

    name: str
    work: Path
    teacher: str | None
    until: int | None

    def steps(self, default: int) -> int:
        """The number of steps asked for, which a file may change during the run."""
        path = self.work / f"{self.name}.steps"
        return int(path.read_text()) if path.exists() else default


def rate(step: int, steps: int) -> float:
    """The share of the base learning rate at a step."""
    decay = max(1, round(steps * DECAY_SHARE))
    return min(1.0, (step + 1) / WARM_UP_STEPS, max(0.0, (steps - step) / decay))


def losses(model: Llama, hidden: Tensor, batch: Batch, teacher: Llama | None) -> Tensor:
    """The weighted sum of the token losses; with a teacher, half of it is imitation."""
    logits = model.logits(hidden).float().flatten(0, 1)
    weights = batch.weights.flatten()
    loss = F.cross_entropy(logits, batch.targets.flatten(), reduction="none")
    if teacher is not None:
        with torch.no_grad():
            wanted = torch.softmax(teacher.logits(teacher(batch.inputs)).float(), -1)
        imitation = F.cross_entropy(logits, wanted.flatten(0, 1), reduction="none")
        loss = 0.5 * loss + 0.5 * imitation
    return (loss * weights).sum()


def load_model(work: Path, name: str) -> Llama:
    """Reads the weights of a checkpoint."""
    saved = torch.load(work / f"{name}.pt", weights_only=True)
    model = Llama(Shape(**saved["shape"]))
    model.load_state_dict(saved["model"])
    return model


def save(run: Run, step: int, model: Llama, optimizers: list, tokens: int) -> None:
    """Writes a checkpoint in one go, so that a cut run leaves the previous one whole."""
    path = run.work / f"{run.name}.pt"
    state = {
        "step": step, "tokens": tokens, "shape": asdict(model.shape), "model": model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
    }
    torch.save(state, path.with_suffix(".tmp"))
    os.replace(path.with_suffix(".tmp"), path)


def restore(run: Run, model: Llama, optimizers: list) -> tuple[int, int]:
    """Goes on from a checkpoint where there is one; returns the step and the tokens seen."""
    path = run.work / f"{run.name}.pt"
    if not path.exists():
        return 0, 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    for optimizer, state in zip(optimizers, saved["optimizers"]):
        optimizer.load_state_dict(state)
    return saved["step"], saved["tokens"]


def train(run: Run, default_steps: int, fast: bool) -> None:
    """Runs the training loop."""
    torch.manual_seed(SEED)
    shape = SHAPES[run.name]
    tokenizer = load(run.work / "tokenizer.json", SEED)
    model = Llama(shape)
    seed_copying(model)
    teacher = load_model(run.work, run.teacher).eval() if run.teacher else None
    both = optimizers(model)
    start, tokens = restore(run, model, both)
    forward = torch.compile(model, dynamic=True) if fast else model
    source = stream(tokenizer, SEED + 1 + start, shape.context)
    began, mean, step = time.time(), None, start
    while step < (steps := run.steps(default_steps)) and step != run.until:
        batches = [next(source) for _ in range(MICRO_BATCHES_A_STEP)]
        total = sum(float(batch.weights.sum()) for batch in batches)
        loss = 0.0
        for batch in batches:
            part = losses(model, forward(batch.inputs), batch, teacher) / total
            part.backward()
            loss += part.item()
            tokens += int((batch.weights > 0).sum())
        for optimizer in both:
            for group in optimizer.param_groups:
                group["lr"] = group["base_lr"] * rate(step, steps)
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        if step % 20 == 0:
            print(f"{run.name} {step}/{steps} loss {mean:.4f} tokens {tokens} "
                  f"seconds {time.time() - began:.0f}", flush=True)
        if step % CHECKPOINT_EVERY == 0 or step in (steps, run.until):
            save(run, step, model, both, tokens)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(SHAPES), required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints")
    parser.add_argument("--teacher", choices=sorted(SHAPES), help="model to imitate as well")
    parser.add_argument("--steps", type=int, help="the whole run, however it is divided")
    parser.add_argument("--until", type=int, help="pause after this step")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler; faster")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    steps = options.steps or DEFAULT_STEPS[options.model]
    run = Run(options.model, options.work, options.teacher, options.until)
    train(run, steps, options.compile)


if __name__ == "__main__":
    main()
