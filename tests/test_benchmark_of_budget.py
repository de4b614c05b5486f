"""Trials next to busy programs: these end with the benchmark, however it ends, and each answer is counted for what it is."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.budget import busy_figures, busy_programs

ROOT = Path(__file__).resolve().parent.parent
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


def computes(pid):
    """Whether it runs: what was ended stays in the list until somebody has waited for it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def ends(pid):
    until = time.monotonic() + 30
    while computes(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not computes(pid)


@on_linux
def test_busy_programs_end_with_the_trials():
    with busy_programs(2) as pids:
        assert len(set(pids)) == 2
        assert all(map(computes, pids))
    assert all(map(ends, pids))


@on_linux
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_busy_programs_end_when_a_trial_fails(error):
    pids = []

    def failing():
        with busy_programs(2) as started:
            pids.extend(started)
            raise error

    with pytest.raises(error):
        failing()
    assert len(pids) == 2
    assert all(map(ends, pids))


ABANDONED = """
import os
from benchmarks.budget import busy_programs
with busy_programs(1) as pids:
    print(*pids, flush=True)
    os._exit(1)
"""


@on_linux
def test_a_busy_program_ends_by_itself_when_the_benchmark_is_killed():
    command = [sys.executable, "-c", ABANDONED]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1, ran.stderr
    assert ends(int(ran.stdout))


def row(verdict, has_interval=True):
    return {"plan": "fused_optimizer", "verdict": verdict, "has_interval": has_interval, "says": ""}


def trial(seconds, *rows):
    return {"seconds": seconds, "budget_s": 60.0, "rows": list(rows), "said": ""}


def test_undecided_with_an_interval_is_an_answer_and_not_measured_is_none():
    figures = busy_figures([
        trial(50.0, row("faster"), row("undecided", has_interval=False)),
        trial(66.0, row("undecided"), row("undecided", has_interval=False)),
        trial(66.1, row("undecided", has_interval=False)),
        trial(20.0),
    ])  # fmt: skip
    assert (figures["busy_trials"], figures["busy_answered"], figures["busy_decided"]) == (4, 2, 1)
    assert (figures["busy_in_time"], figures["busy_seconds_worst"]) == (3, 66.1)
    assert (figures["busy_plans_answered"], figures["busy_plans"]) == (2, 5)
