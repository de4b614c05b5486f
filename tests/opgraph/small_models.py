"""Small models, each with one thing that makes a graph hard to read."""

from __future__ import annotations

import torch
from torch import nn


class Tied(nn.Module):
    """A language model in small: the output layer shares the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(words))


class TakesTheSign(nn.Module):
    """Its Python looks at the data."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        features = self.linear(features)
        if features.sum() > 1e6:
            return features
        return torch.tanh(features)


class TwoInputs(nn.Module):
    """Two branches that meet."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 8), nn.Linear(6, 8)

    def forward(self, left: torch.Tensor, right: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return self.left(left) * scale + self.right(right)


class TakesADict(nn.Module):
    """One argument that is a dict, as data collators make them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.linear(batch["features"]) * batch["mask"]


class Noisy(nn.Module):
    """Everything that a careless look would change: buffers, counters, random numbers, output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.calls, self.cache = 0, []
        self.register_buffer("total", torch.zeros(()))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        print("called")
        self.calls += 1
        features = self.drop(self.norm(self.linear(features))) + torch.randn(4)
        self.cache.append(features)
        self.total += features.sum()
        return features
