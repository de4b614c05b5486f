"""The course's models by name: its small convolutional network, and torchvision's."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import nn

from accel.errors import UnknownName

ModelName = Literal["cnn", "densenet121", "resnet18", "resnet50", "efficientnet_b7"]


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


def load_model(name: ModelName, *, classes: int = 10, channels: int = 3, size: int = 32) -> nn.Module:
    """A model of the course by its name, with new weights: nothing is downloaded.

    >>> load_model("densenet121", classes=1000)     # 7,978,856 parameters
    >>> load_model("cnn", channels=1, size=28)      # 1,630,090 parameters, for Fashion-MNIST

    Args:
        name: "cnn", or a name that torchvision knows it by.
        classes: The width of the last layer.
        channels: Of an image, for "cnn" alone; torchvision's models take colour images.
        size: Height and width of an image, for "cnn" alone; torchvision's take any from 32 pixels.
    """
    if name not in get_args(ModelName):
        raise UnknownName("model", name, get_args(ModelName))
    if name == "cnn":
        return CNN(channels, size, classes)
    import torchvision

    model: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=classes)
    return model
