"""Checks of threads: those of a real process are looked at; two logical CPUs of one core are no two cores."""

from __future__ import annotations

import os
import sys

import pytest

from accel.errors import AccelError
from accel.labs.exercises import of_threads
from accel.labs.exercises.of_threads import bound_threads, one_cpu_a_core

BOUND = {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
in_a_process = pytest.mark.skipif(
    CPUS < 2 or sys.platform != "linux",
    reason="binding two threads needs two usable CPUs, and /proc to see it",
)


@in_a_process
def test_threads_that_stay_on_cores_pass():
    seen = bound_threads(BOUND, 2)
    assert seen.passed, seen
    assert seen.figures["threads"] == 2


@in_a_process
def test_threads_that_may_run_anywhere_do_not_pass():  # the notebook's starting point
    seen = bound_threads({"OMP_NUM_THREADS": "2"}, 2)
    assert not seen.passed
    assert "Say that they stay" in seen.hint, seen


@pytest.fixture
def found(monkeypatch):
    """What the process reports, instead of a process."""
    reported = {"threads": 2, "masks": ["0-3", "0-3"]}
    monkeypatch.setattr(of_threads, "_look", lambda variables: reported)
    monkeypatch.setattr(of_threads, "_cores", lambda: ({0, 1}, {2, 3}))
    return reported


@pytest.mark.parametrize(
    ("masks", "passed"),
    [
        (
            ["0-1", "2,3", "0-3"],
            True,
        ),  # a place is a core that has two logical CPUs; torch has idle threads too
        (["0", "2"], True),
        (["0-1", "0-1"], False),
        (["0-3", "0-3"], False),
        (["1-2", "0,3"], False),
    ],
    ids=["cores", "logical CPUs", "one core", "anywhere", "two cores each"],
)
def test_a_thread_is_bound_where_its_cpus_are_of_one_core(found, masks, passed):
    found["masks"] = masks
    seen = bound_threads(BOUND, 2)
    assert seen.passed is passed, seen
    assert "Say that they stay" in seen.hint


def test_another_number_of_threads_has_its_hint(found):
    found["threads"] = 4
    assert "is a variable of its own" in bound_threads({"OMP_PROC_BIND": "close"}, 2).hint


def test_other_variables_are_refused_before_a_process_starts(monkeypatch):
    monkeypatch.setattr(of_threads, "_look", lambda variables: pytest.fail("a process was started"))
    seen = bound_threads({**BOUND, "LD_PRELOAD": "libiomp5.so"}, 2)
    assert not seen.passed
    assert "variables of OpenMP only" in seen.hint


def test_a_process_that_ends_is_told_with_its_reason(monkeypatch):
    monkeypatch.setattr(of_threads, "_look", lambda variables: "it cannot bind")
    seen = bound_threads(BOUND, 2)
    assert not seen.passed
    assert seen.saw.endswith("it cannot bind")


@pytest.mark.parametrize("works", [("OMP_NUM_THREADS=2", 2), (BOUND, "2"), (None, None)])
def test_what_is_no_environment_is_refused(works):
    with pytest.raises(AccelError, match="and the number of threads"):
        bound_threads(*works)


def cpus_for(core_of_cpu, threads):
    first = {core: cpu for cpu, core in core_of_cpu.items()}
    return list(first.values())[:threads] if len(first) >= threads else None


def without_counting(core_of_cpu, threads):
    return list({core: cpu for cpu, core in core_of_cpu.items()}.values())[:threads]


def the_first_half(core_of_cpu, threads):
    return sorted(core_of_cpu)[:threads] if 2 * threads <= len(core_of_cpu) else None


def every_second(core_of_cpu, threads):
    return sorted(core_of_cpu)[::2][:threads] if 2 * threads <= len(core_of_cpu) else None


@pytest.mark.parametrize("kind", [list, tuple, set])
def test_one_cpu_of_each_core_passes(kind):
    seen = one_cpu_a_core(lambda *work: None if (cpus := cpus_for(*work)) is None else kind(cpus))
    assert seen.passed, seen


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda core_of_cpu, threads: list(core_of_cpu)[:threads], ("share a core", "give None")),
        (the_first_half, ("share a core",)),
        (every_second, ("share a core",)),
        (without_counting, ("fewer physical cores than threads: give None",)),
        (lambda core_of_cpu, threads: list(range(threads)), ("share a core", "give None")),
        (lambda core_of_cpu, threads: None, ("one for each thread",)),
        (lambda core_of_cpu, threads: threads, ("one for each thread",)),
        (lambda core_of_cpu, threads: [["0"]] * threads, ("one for each thread",)),
        (lambda core_of_cpu, threads: core_of_cpu["all"], ("one for each thread",)),
    ],
    ids=[
        "starting point", "first half", "every second", "never None", "from 0", "always None", "a number",
        "lists", "raises",
    ],
)  # fmt: skip
def test_each_mistake_of_a_choice_of_cpus_has_its_hint(function, hint):
    seen = one_cpu_a_core(function)
    assert not seen.passed
    assert any(each in seen.hint for each in hint), seen


def test_a_list_is_no_function():
    with pytest.raises(AccelError, match="Pass the function itself"):
        one_cpu_a_core([0, 2])
