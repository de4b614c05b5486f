"""Copies between devices: rates and routes, on buffers that tell a fake clock how long each copy takes."""

from __future__ import annotations

import json

import pytest
import torch

from accel.machine.peaks import Copies, CopyPeak
from accel.machine.peaks import copies as copying
from accel.machine.peaks.copies import host_copies, peer_copies

LATENCY_S = 5e-6


class FakeMachine:
    """A clock and buffers: a copy only begins with `copy_`, and has taken its time when `wait` returns."""

    def __init__(self, rates):
        self.rates, self.now, self.pending_s = rates, 0.0, 0.0

    def perf_counter(self):
        self.now += 1e-7
        return self.now

    def wait(self, *devices):
        self.now, self.pending_s = self.now + self.pending_s, 0.0

    def buffer(self, size, place):
        return FakeBuffer(self, size, place)


class FakeBuffer:
    def __init__(self, machine, size, place):
        self.machine, self.size, self.place = machine, size, place

    def numel(self):
        return self.size

    def __getitem__(self, part):
        return FakeBuffer(self.machine, min(part.stop, self.size), self.place)

    def copy_(self, source, non_blocking):
        assert source.size == self.size
        self.machine.pending_s += LATENCY_S + self.size / self.machine.rates[source.place, self.place]


@pytest.fixture
def machine(monkeypatch):
    made = FakeMachine({
        ("pinned", "cuda:0"): 25e9, ("cuda:0", "pinned"): 26e9, ("pageable", "cuda:0"): 9e9, ("cuda:0", "pageable"): 6e9,
        ("cuda:0", "cuda:1"): 2e11, ("cuda:1", "cuda:0"): 1e11,
    })  # fmt: skip
    monkeypatch.setattr(copying, "time", made)
    return made


def test_each_direction_and_kind_of_memory_has_its_own_rate(machine):
    copies = Copies(tuple(host_copies("cuda:0", machine.wait, buffer=machine.buffer)))
    assert copies.rate("cpu", "cuda:0", pinned=True) == pytest.approx(25e9, rel=0.01)
    assert copies.rate("cuda:0", "cpu", pinned=True) == pytest.approx(26e9, rel=0.01)
    assert copies.rate("cpu", "cuda:0") == pytest.approx(9e9, rel=0.01)
    assert copies.rate("cuda:0", "cpu") == pytest.approx(6e9, rel=0.01)
    assert copies.rate("cpu", "cuda:7") is None
    small_us = (LATENCY_S + copying.SMALL_BYTES / 25e9) * 1e6
    assert copies.of("cpu", "cuda:0", pinned=True).small_us == pytest.approx(small_us, rel=0.1)


def test_gpus_are_measured_both_ways_with_the_route_between_them(machine):
    access = {("cuda:1", "cuda:0"): True, ("cuda:0", "cuda:1"): False}  # (who reads, whose memory)
    copies = peer_copies(
        ["cuda:0", "cuda:1"], machine.wait, lambda reader, owner: access[reader, owner], buffer=machine.buffer
    )
    assert [(row.source, row.target, row.route) for row in copies.rows] == [
        ("cuda:0", "cuda:1", "peer access"),
        ("cuda:1", "cuda:0", "through the host"),
    ]
    assert copies.rate("cuda:0", "cuda:1") == pytest.approx(2e11, rel=0.05)
    assert copies.rate("cuda:1", "cuda:0") == pytest.approx(1e11, rel=0.05)
    assert copies.rate("cuda:0", "cuda:1", pinned=True) == copies.rate("cuda:0", "cuda:1")
    assert any(line.startswith("cuda:1 to cuda:0: through the host") for line in copies.lines())


def test_a_gpu_without_room_is_told_and_the_others_are_measured(machine):
    def buffer(size, place):
        if place == "cuda:2":
            raise torch.OutOfMemoryError
        return machine.buffer(size, place)

    copies = peer_copies(["cuda:0", "cuda:1", "cuda:2"], machine.wait, lambda *_: True, buffer=buffer)
    assert len(copies.rows) == 2
    assert len(copies.notes) == 4
    assert all("cuda:2" in note for note in copies.notes)


def test_real_tensors_are_copied_whole(monkeypatch):
    monkeypatch.setattr(copying, "LARGE_BYTES", 1 << 20)
    made = []

    def buffer(size, place):
        made.append(torch.full((size,), len(made), dtype=torch.uint8))
        return made[-1]

    copies = peer_copies(["cpu:0", "cpu:1"], lambda *_: None, lambda *_: True, buffer=buffer)
    assert all(row.bytes_per_s > 0 and row.small_us > 0 for row in copies.rows)
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[2], made[3])
    assert copying.new_buffer(8, "pageable").tolist() == [0] * 8


def test_measuring_again_keeps_the_higher_rate_and_what_only_one_has():
    slow = CopyPeak("cpu", "cuda:0", 1e9, 5.0, "pinned")
    fast = CopyPeak("cpu", "cuda:0", 2e9, 9.0, "pinned")
    peer = CopyPeak("cuda:0", "cuda:1", 1e11, 7.0, route="peer access")
    merged = Copies((slow,)).higher(Copies((fast, peer), ("a note",)))
    assert merged.rows == (CopyPeak("cpu", "cuda:0", 2e9, 5.0, "pinned"), peer)
    assert merged.notes == ("a note",)
    assert Copies.from_dict(json.loads(json.dumps(merged.to_dict()))) == merged
    assert "cuda:0 to cuda:1, peer access: 100 GB/s" in str(peer)
