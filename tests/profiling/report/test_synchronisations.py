"""Calls that read tensors back, in the report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.html_parts import text
from accel.profiling.synchronisations import Synchronisation
from accel.views.profile.synchronisations import ON_CPU, SYNCHRONISATIONS

EVIL = "<img src=x>"
CALL = Synchronisation("Tensor.item", "train.py", 7, "total += loss.item()", "cpu", 0.0041, 1.0)


@pytest.fixture
def profile(real_profile):
    return replace(real_profile, synchronisations=(CALL,))


def html_of(profile):
    return "".join(text(part) for part in SYNCHRONISATIONS.html(profile))


def test_each_call_is_told_with_its_line_how_often_and_for_how_long(profile):
    told = "\n".join(SYNCHRONISATIONS.text(profile))
    assert "Tensor.item at train.py, line 7: total += loss.item() (1 a step, 4.1 µs on cpu)" in told
    assert "total += loss.item()" in html_of(profile)


def test_on_the_cpu_it_is_said_that_nothing_waits(profile):
    assert ON_CPU in "\n".join(SYNCHRONISATIONS.text(profile))
    on_gpu = replace(profile, synchronisations=(CALL, replace(CALL, device="cuda:0")))
    assert ON_CPU not in "\n".join(SYNCHRONISATIONS.text(on_gpu))
    assert ON_CPU not in html_of(on_gpu)


def test_code_is_escaped(profile):
    hostile = replace(profile, synchronisations=(replace(CALL, text=EVIL, filename=EVIL),))
    assert EVIL not in html_of(hostile)
    assert "&lt;img" in html_of(hostile)
