"""The peak of memory since some moment, of this process."""

from __future__ import annotations

import sys

import pytest

from accel.workload.peak_memory import PeakMemory

MIB = 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_what_was_held_for_a_moment_counts_and_what_came_before_does_not():
    before = bytearray(64 * MIB)
    peak = PeakMemory("cpu")
    assert peak.bytes < 16 * MIB
    del before
    for_a_moment = bytearray(b"x") * (96 * MIB)
    del for_a_moment
    assert 24 * MIB < peak.bytes < 160 * MIB
