"""The small convolutional network that runs through the course."""

from __future__ import annotations

import torch
from torch import nn


class CNN(nn.Module):
    """Two convolutions and two linear layers: 1,630,090 parameters on 28×28 grey images.

    >>> model = CNN()                           # Fashion-MNIST, or digits in its shape
    >>> model = CNN(channels=3, size=32)        # CIFAR-10: 2,122,186 parameters
    >>> model = CNN(extra_layer=256)            # one more linear layer, 256 wide: 1,758,858 parameters

    Takes images of shape (batch, channels, size, size), `size` a multiple of 4; gives logits of shape (batch, classes).
    """

    def __init__(
        self,
        channels: int = 1,
        size: int = 28,
        classes: int = 10,
        *,
        bias: bool = True,
        extra_layer: int | None = None,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, kernel_size=3, padding=1, bias=bias)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1, bias=bias)
        self.relu2 = nn.ReLU()
        self.pool2 = nn.MaxPool2d(2)
        self.flatten = nn.Flatten()
        self.linear1 = nn.Linear(64 * (size // 4) ** 2, 512, bias=bias)
        self.extra = nn.Linear(512, extra_layer, bias=bias) if extra_layer else nn.Identity()
        self.linear2 = nn.Linear(extra_layer or 512, classes, bias=bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.pool1(self.relu1(self.conv1(images)))
        features = self.pool2(self.relu2(self.conv2(features)))
        logits: torch.Tensor = self.linear2(self.extra(self.linear1(self.flatten(features))))
        return logits
