"""Training cells of many kinds, from 0.3 to 300 ms a step, for `python -m benchmarks.clock`; a few for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
criterion = nn.CrossEntropyLoss()
"""
LOOP = """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Case:
    """A cell, and the cells before it; `steps` is how long the real training would be (None: as long as the cell)."""

    name: str
    setup: str
    cell: str = LOOP
    steps: int | None = None


def images(count: int, batch: int, *, channels: int = 1, size: int = 28, more: str = "") -> str:
    """A loader of random images in memory, ten classes."""
    return (
        f"data = TensorDataset(torch.randn({count}, {channels}, {size}, {size}), torch.randint(0, 10, ({count},)))\n"
        f"loader = DataLoader(data, batch_size={batch}, shuffle=True{more})\n"
    )


CNN = "from accel.labs.models import CNN\nmodel = CNN()\n"  # the course's model alone: nothing of accel runs with it
ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)\n"
MLP = "model = nn.Sequential(nn.Flatten(), nn.Linear(784, {width}), nn.ReLU(), nn.Linear({width}, 10))\n"
SLOW_DATA = """
class Slow(Dataset):
    def __len__(self):
        return 768
    def __getitem__(self, i):
        image = torch.randn(1, 28, 28, generator=torch.Generator().manual_seed(i))
        for shift in range(24):
            image = image.roll(shift, 2).mul(0.99).clamp(-3, 3)
        return image, i % 10
loader = DataLoader(Slow(), batch_size=32{more})
"""
TRANSFORMER = """
class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(500, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(128, 10)
    def forward(self, x):
        return self.head(self.layers(self.words(x)).mean(1))
model = Tiny()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(TensorDataset(torch.randint(0, 500, (960, 48)), torch.randint(0, 10, (960,))), batch_size=16)
"""
LSTM = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 96, num_layers=2, batch_first=True), nn.Linear(96, 10)
    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(960, 40, 32), torch.randint(0, 10, (960,))), batch_size=16)
"""
GAN = """
generator = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh())
discriminator = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4)
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
bce = nn.BCEWithLogitsLoss()
loader = DataLoader(TensorDataset(torch.randn(3200, 784)), batch_size=64, shuffle=True)
"""
GAN_LOOP = """
for (real,) in loader:
    ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
    fake = generator(torch.randn(len(real), 32))
    optimizer_d.zero_grad()
    loss_d = bce(discriminator(real), ones) + bce(discriminator(fake.detach()), zeros)
    loss_d.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = bce(discriminator(fake), ones)
    loss_g.backward()
    optimizer_g.step()
"""
DENSENET = (
    "from torchvision.models import densenet121\nmodel = densenet121(num_classes=10)\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)\n"
)
RESNET = (
    "from torchvision.models import resnet18\nmodel = resnet18(num_classes=10)\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)\n"
)

ON_ITS_GPU = """
for x, y in loader:
    x, y = x.to("cuda"), y.to("cuda")
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
last = loss.item()
"""
TRANSFORMER_ON_GPU = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5000, 512)
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
        self.layers, self.head = nn.TransformerEncoder(layer, 6), nn.Linear(512, 10)
    def forward(self, x):
        return self.head(self.layers(self.words(x)).mean(1))
model = Encoder().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(TensorDataset(torch.randint(0, 5000, (1280, 256)), torch.randint(0, 10, (1280,))), batch_size=64)
"""

CASES = (
    Case("cnn", HEAD + CNN + ADAM + images(3200, 64)),
    Case("cnn_small_batch", HEAD + CNN + ADAM + images(800, 8)),
    Case("cnn_workers", HEAD + CNN + ADAM + images(2560, 64, more=", num_workers=2")),
    Case("mlp_tiny", HEAD + MLP.format(width=32) + ADAM + images(4800, 16)),
    Case("mlp_wide", HEAD + MLP.format(width=2048) + ADAM + images(3200, 64), steps=50_000),
    Case("slow_loader", HEAD + CNN + ADAM + SLOW_DATA.format(more="")),
    Case("slow_loader_workers", HEAD + CNN + ADAM + SLOW_DATA.format(more=", num_workers=1")),
    Case("transformer", HEAD + TRANSFORMER, steps=50_000),
    Case("lstm", HEAD + LSTM),
    Case("gan", HEAD + GAN, GAN_LOOP),
    Case("resnet18", HEAD + RESNET + images(256, 16, channels=3, size=64)),
    Case("densenet121", HEAD + DENSENET + images(96, 8, channels=3, size=32)),
)
CASES_ON_GPU = (
    Case("transformer_on_gpu", HEAD + TRANSFORMER_ON_GPU, ON_ITS_GPU, steps=50_000),
    Case(
        "resnet18_on_gpu",
        HEAD
        + RESNET.replace("num_classes=10)", "num_classes=10).cuda()")
        + images(2560, 128, channels=3, size=64),
        ON_ITS_GPU,
        steps=50_000,
    ),
    Case("cnn_on_gpu", HEAD + CNN.replace("CNN()", "CNN().cuda()") + ADAM + images(6400, 64), ON_ITS_GPU),
)
