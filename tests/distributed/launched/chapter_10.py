"""One process a GPU, joined by NCCL; the first one writes the checkpoint."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def setup():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def main():
    device = setup()
    torch.manual_seed(10)
    data = TensorDataset(torch.randn(70, 3, 6, 6).double(), torch.randint(10, (70,)))
    loader = DataLoader(
        data, batch_size=8, sampler=DistributedSampler(data), pin_memory=device.type == "cuda"
    )
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(64, 10)).double().to(device)
    net = DistributedDataParallel(net, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    with tempfile.TemporaryDirectory() as folder:
        if dist.get_rank() == 0:
            torch.save(
                {"net": net.module.state_dict(), "epoch": epoch}, os.path.join(folder, "checkpoint.pt")
            )
        dist.barrier()
    dist.destroy_process_group()
    return net.module


if __name__ == "__main__":
    model = main()
