"""A profile or a trial on a busy machine says so, and what that costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from accel.processes.starting_mask import allowed_cpus
from tests.threads import threads
from tests.workers.conftest import CELL

# Somebody else's programs: their parent has ended, so that they are no children of ours.
SPINNERS = """
import subprocess, sys
for _ in range(int(sys.argv[1])):
    print(subprocess.Popen([sys.executable, "-c", "while True: pass"], stdout=subprocess.DEVNULL).pid)
"""


@pytest.fixture
def others_work():
    """As many programs as there are CPUs that compute all the time."""
    if sys.platform != "linux":
        pytest.skip("only Linux tells what others take")
    started = subprocess.run(
        [sys.executable, "-c", SPINNERS, str(len(allowed_cpus()))],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pids = list(map(int, started.stdout.split()))
    yield
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.fresh_interpreters
def test_a_trial_beside_other_programs_says_what_they_took_and_what_that_costs(workbench, others_work):
    with threads(
        len(allowed_cpus())
    ):  # a scheduler that shares between sessions leaves a core to a trial of one thread
        workbench.profile(CELL)
        ladder = workbench.try_("fused_optimizer")
    assert any("other programs used" in note and "times as long" in note for note in ladder.notes)


def test_a_profile_next_to_other_programs_says_what_they_took(workbench, others_work):
    profile = workbench.profile(f"{CELL}\nimport time\ntime.sleep(1)")
    taken = workbench.workload.conditions.others
    assert taken is not None
    assert taken.share > 0.3
    assert any("other programs used" in note for note in profile.notes)
