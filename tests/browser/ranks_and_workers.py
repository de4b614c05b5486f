"""Cells that put two ranks, pinned to cores of their own, and two loader workers on the core map."""

from __future__ import annotations

RANKS = '''
import os, subprocess, sys
from accel.machine.affinity import allocate

RANK = """
import os, sys
from accel.machine.affinity import RankCpus
RankCpus(int(sys.argv[1]), (int(sys.argv[2]),)).pin()
import torch
large, parent = torch.randn(1000, 1000), os.getppid()
while os.getppid() == parent:
    large @ large
"""
def start(rank, cpu):
    return subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(cpu)], env={**os.environ, "RANK": str(rank)})

ranks = [start(each.rank, each.cpus[0]) for each in allocate(ranks=2, threads=1).ranks]
%load_ext accel
'''
LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset

class Rotated(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        return torch.rand(256, 256).rot90().sort().values

loader = DataLoader(Rotated(), batch_size=8, num_workers=2, persistent_workers=True)
batches = iter(loader)
batch = next(batches)
"""
SHOW = "%accel affinity -o found"
TRAIN = """
import time
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    (next(batches) @ next(batches)).sum()
"""
END = """
for rank in ranks:
    rank.kill()
    rank.wait()
del batches
"""
