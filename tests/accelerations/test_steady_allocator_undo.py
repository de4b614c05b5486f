"""Undo of steady_allocator gives back the thresholds that glibc had found for itself: in processes of their own, by counts."""

from __future__ import annotations

import json
import subprocess
import sys

from accel.machine.mmap_threshold import LARGEST, LEAST

FOUND = """
import ctypes, json
from accel.machine.mmap_threshold import found_mmap_threshold
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
from accel.accelerations.steady_allocator import SteadyAllocator, present_threshold
from accel.workload import Replica
from accel.workload.page_faults import page_faults
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 8))
optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(512, 512)
def train(steps=10):
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
def faults_of_a_large_block():  # larger than any that glibc takes from its heap by itself: the heap's holes have no part
    counts = [page_faults()]
    for _ in range(4):
        torch.ones(12 << 20)
        counts.append(page_faults())
    return min(later - before for before, later in zip(counts, counts[1:]))  # the first ones may meet a new piece of heap
train()
seen = [(faults_of_a_large_block(), present_threshold())]
for _ in range(2):  # a second keep knows the thresholds from the first
    with SteadyAllocator().apply(Replica()):
        train()
        kept = faults_of_a_large_block()
    train()
    seen += [(faults_of_a_large_block(), present_threshold())]
print(json.dumps([kept, seen]))
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


def test_after_undo_large_blocks_fault_anew_and_the_threshold_is_the_one_found_while_training():
    kept, [(before, found), *undone] = said_by(TRAINED)
    assert kept < before / 4
    for faults, threshold in undone:
        assert before / 2 < faults < 2 * before
        assert found <= threshold <= 1.03 * found
