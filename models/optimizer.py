"""How are the weights updated?

Muon for the matrices (each update is a momentum whose singular values are all made one), Adam
for the embedding, the output projection and the norms.
Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton-Schulz iteration; they trade accuracy for speed near one."""
ITERATIONS = 5


def orthogonalize(updates: Tensor) -> Tensor:
    """Brings the singular values of a stack of matrices [n, rows, columns] close to one."""
    tall = updates.shape[1] > updates.shape[2]
    x = (updates.mT if tall else updates).bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonalized updates; matrices of one shape are handled together."""

    def __init__(self, weights: list[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        shapes = sorted({tuple(w.shape) for w in weights})
        groups = [{"params": [w for w in weights if tuple(w.shape) == s]} for s in shapes]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "decay": 0.1})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Applies one update."""
        for group in self.param_groups:
            momentum, lr = group["momentum"], group["lr"]
            directions = []
            for weight in group["params"]:
                state = self.state[weight]
                average = state.setdefault("average", torch.zeros_like(weight))
                average.lerp_(weight.grad, 1 - momentum)
                directions.append(weight.grad.lerp(average, momentum))
            updates = orthogonalize(torch.stack(directions))
            rows, columns = updates.shape[1:]
            scale = max(1.0, rows / columns) ** 0.5
            for weight, update in zip(group["params"], updates):
                weight.mul_(1 - lr * group["decay"]).add_(update, alpha=-lr * scale)


MUON_RATE = 0.02
EMBEDDING_RATE = 0.03
OUTPUT_RATE = 0.004


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Splits the parameters between the two optimizers and remembers their base rates."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "layers" in n]
    norms = [p for p in model.parameters() if p.ndim == 1]
    adam = torch.optim.AdamW(
        [{"params": [model.embedding], "lr": EMBEDDING_RATE},
         {"params": [model.output, *norms], "lr": OUTPUT_RATE}],
        betas=(0.9, 0.95), weight_decay=0.0,
    )
    both = [Muon(matrices, MUON_RATE), adam]
    for optimizer in both:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return both
