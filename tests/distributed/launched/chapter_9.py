"""Several processes on the CPUs of one machine: numbers from the environment, arguments, a sum over ranks."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=16)
args = parser.parse_args()

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert int(os.environ["LOCAL_WORLD_SIZE"]) == world_size
assert os.environ["MASTER_ADDR"]
assert os.environ["MASTER_PORT"]
dist.init_process_group(backend="gloo", init_method="env://", world_size=world_size, rank=rank)

torch.manual_seed(9)
inputs, labels = torch.randn(100, 12).double(), torch.randint(3, (100,))
train_data, test_data = TensorDataset(inputs[:80], labels[:80]), TensorDataset(inputs[80:], labels[80:])
sampler = DistributedSampler(train_data, num_replicas=world_size, rank=rank, shuffle=True, drop_last=True)
train_loader = DataLoader(train_data, batch_size=args.batch_size // world_size, sampler=sampler)
test_sampler = DistributedSampler(test_data, num_replicas=world_size, rank=rank, shuffle=False)
test_loader = DataLoader(test_data, batch_size=5, sampler=test_sampler)
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3)).double()
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(args.epochs):
    model.train()
    sampler.set_epoch(epoch)
    for batch, target in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(batch), target)
        loss.backward()
        optimizer.step()
    model.eval()
    right = torch.zeros(1, dtype=torch.int64)
    with torch.no_grad():
        for batch, target in test_loader:
            right += (model(batch).argmax(1) == target).sum()
    dist.all_reduce(right)
    if rank == 0:
        print(f"epoch {epoch}: {right.item()} of {len(test_data)}")

dist.destroy_process_group()
