"""The workflow of distributed data parallel, as a script for torchrun."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.layer2 = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.drop(self.layer2(self.layer1(x)).flatten(1)))


def train(model, loader, sampler, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=0.005)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(8)
    data = TensorDataset(torch.randn(90, 1, 8, 8).double(), torch.randint(10, (90,)))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(CNN().double())
    train(model, loader, sampler, epochs=2)
    if dist.get_rank() == 0:
        model.eval()
        with torch.no_grad():
            images, labels = data.tensors
            right = (model.module(images).argmax(1) == labels).sum().item()
        print(f"accuracy of rank 0: {right / len(labels):.2f}")
    dist.destroy_process_group()
    return model


if __name__ == "__main__":
    model = main()
