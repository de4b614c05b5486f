"""The strip of steps: which were left out, and bars that one slow step does not flatten."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from accel.html_parts import text
from accel.profiling.step_timing import OneStep
from accel.views.profile.steps import STEPS, step_sign


def of_steps(profile, *steps):
    return replace(profile, timing=replace(profile.timing, each_step=steps))


def test_warm_up_and_profiled_steps_of_a_run_are_marked_in_its_order(real_profile):
    signs = "".join(map(step_sign, real_profile.timing.each_step))
    assert re.fullmatch("wp{6}[·s]{5}", signs)
    assert any(line.strip() == signs for line in STEPS.text(real_profile))


def test_each_step_lasts_as_long_as_its_phases(real_profile):
    for step in real_profile.timing.each_step:
        assert sum(ms for _, ms in step.phases) == pytest.approx(step.ms)
    begins = [step.begin_ms for step in real_profile.timing.each_step]
    assert begins == sorted(begins)
    assert begins[0] == 0


@pytest.mark.parametrize(
    ("flags", "sign"),
    [
        ({}, "·"),
        ({"is_warm_up": True, "is_profiled": True}, "w"),
        ({"is_profiled": True}, "p"),
        ({"is_outlier": True}, "s"),
    ],
)
def test_a_step_has_one_sign(flags, sign):
    assert step_sign(OneStep(0.0, 1.0, (), **flags)) == sign


def test_a_first_step_that_compiled_for_seconds_does_not_flatten_the_others(real_profile):
    steps = [OneStep(0.0, 9000.0, (), is_warm_up=True), *(OneStep(0.0, 10.0, ()) for _ in range(9))]
    html = "".join(text(part) for part in STEPS.html(of_steps(real_profile, *steps)))
    heights = [int(px) for px in re.findall(r"height:(\d+)px", html)]
    assert heights[0] == 44
    assert min(heights) >= 10
    assert "Bars end at 40 ms; the longest is 9000 ms." in html


def test_many_steps_are_cut_and_say_so(real_profile):
    many = of_steps(real_profile, *(OneStep(i * 5.0, 5.0, ()) for i in range(300)))
    assert next(iter(STEPS.text(many))) == "The first 80 of the steps"
    assert sum(part.count("title=") for part in map(text, STEPS.html(many))) == 80


def test_two_steps_have_no_strip(real_profile):
    assert list(STEPS.text(of_steps(real_profile, OneStep(0, 1, ()), OneStep(1, 1, ())))) == []
