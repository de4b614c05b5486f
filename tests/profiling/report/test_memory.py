"""Memory in the report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.html_parts import text
from accel.profiling.memory_use import MemoryPoint, MemoryUse
from accel.views.profile.memory import BARS, MEMORY

MIB = 2**20
EVIL = "<img src=x>"


def use_of(points, **changes):
    curve = tuple(MemoryPoint(ms, held, "forward", "conv1") for ms, held in points)
    top = max(held for _, held in points)
    plain = MemoryUse("cpu", curve, top, "forward", "conv1", (("forward", "conv1", top),), 3.0 * MIB, 12.0)
    return replace(plain, **changes)


@pytest.fixture
def profile(real_profile):
    return replace(real_profile, memory=(use_of([(0, 0), (1, 8 * MIB), (9, MIB), (10, 0)]),))


def html_of(profile):
    return "".join(text(part) for part in MEMORY.html(profile))


def test_peak_and_allocations_are_told_in_words(profile):
    told = "\n".join(MEMORY.text(profile))
    assert "Peak: 8 MiB above the start of the first step, in Forward · conv1." in told
    assert "Allocated: 3 MiB a step in 12 allocations." in told


def test_the_curve_keeps_what_was_held_while_nothing_happened(profile):
    curve = next(line.strip() for line in MEMORY.text(profile) if "█" in line)
    assert len(curve) == BARS
    assert curve.count("█") == pytest.approx(0.8 * BARS, abs=2)  # from 1 to 9 of 10 ms
    assert curve[0] == "▁"


def test_statistics_of_the_allocator_are_sizes_or_counts(profile):
    told = (("reserved_bytes.all.peak", 4 * MIB), ("num_ooms", 2))
    with_allocator = replace(profile, memory=(replace(profile.memory[0], device="cuda:0", allocator=told),))
    lines = list(MEMORY.text(with_allocator))
    assert "  reserved_bytes.all.peak: 4 MiB" in lines
    assert "  num_ooms: 2" in lines
    assert "since the process began" in html_of(with_allocator)


def test_who_held_nothing_is_left_out(profile):
    rows = (("forward", "conv1", 8 * MIB), ("optimizer", "", -512))
    quiet = replace(profile, memory=(replace(profile.memory[0], peak_by=rows),))
    assert not any("Optimizer" in line for line in MEMORY.text(quiet))


def test_one_reading_is_a_curve_too(profile):
    single = replace(profile, memory=(use_of([(0, MIB)]),))
    assert "1 MiB" in html_of(single)
    assert any("▁" in line for line in MEMORY.text(single))


def test_names_are_escaped(profile):
    hostile = use_of([(0, 1)], peak_phase=EVIL, peak_module=EVIL, peak_by=((EVIL, EVIL, 5),), device=EVIL)
    points = (MemoryPoint(0.0, 1, EVIL, EVIL),)
    html = html_of(replace(profile, memory=(replace(hostile, points=points),)))
    assert EVIL not in html
    assert "&lt;img" in html
