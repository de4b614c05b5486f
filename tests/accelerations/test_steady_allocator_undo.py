"""Undo of steady_allocator gives back the thresholds that glibc had found for itself: in processes of their own, by counts."""

from __future__ import annotations

import json
import subprocess
import sys

from accel.accelerations.mmap_threshold import LARGEST, LEAST

FOUND = """
import ctypes, json
from accel.accelerations.mmap_threshold import found_mmap_threshold
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
blocks = [libc.malloc(100_000) for _ in range(500)]
last = libc.malloc(100)  # above them: what is freed below it stays in the heap, in the way of what is made later
found = [found_mmap_threshold()]
for block in blocks: libc.free(block)
for mebibytes in (1, 6, 20, 64):
    libc.free(libc.malloc(mebibytes << 20))
    found += [found_mmap_threshold(), found_mmap_threshold()]
print(json.dumps(found))
"""
TRAINED = """
import json, torch
from accel.accelerations.steady_allocator import SteadyAllocator
from accel.workload import Replica
from accel.workload.page_faults import page_faults
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 8))
optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(512, 512)
def faults_a_step(steps=10):
    before = page_faults()
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    return (page_faults() - before) / steps
faults_a_step()
before = faults_a_step()
for _ in range(2):  # a second keep knows the thresholds from the first
    with SteadyAllocator().apply(Replica()):
        faults_a_step()
        kept = faults_a_step()
    faults_a_step()
print(json.dumps([before, kept, faults_a_step()]))
"""


def said_by(program: str) -> list[float]:
    """What a fresh process prints: the thresholds belong to a whole process, and cannot be unset."""
    words = [sys.executable, "-c", program]
    return json.loads(subprocess.run(words, capture_output=True, text=True, timeout=300, check=True).stdout)


def test_the_threshold_is_found_after_each_larger_block_that_was_mapped_and_freed():
    at_first, *found = said_by(FOUND)
    assert LEAST <= at_first < 8 * LEAST
    for freed, first, second in zip((1 << 20, 6 << 20, 20 << 20), found[0::2], found[1::2], strict=False):
        assert freed <= first <= 1.03 * freed
        assert first <= second <= 1.03 * first
    assert found[-1] < LARGEST  # glibc learns nothing from a block above 32 MiB


def test_a_training_loop_takes_as_many_page_faults_after_undo_as_before_keep():
    before, kept, after = said_by(TRAINED)
    assert kept < before / 4
    assert before / 4 < after < 2 * before
