"""Entries that a process is started with: each shows in a process that was, and not in one that was not."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from small_training import training

from accel.accelerations import CATALOGUE, by_name
from accel.accelerations.allocator import LIBRARIES
from accel.accelerations.env_var import EnvVar
from accel.accelerations.started import Started
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.processes.starting_mask import allowed_cpus
from accel.techniques.started.preloading import library_file

STARTED = [kind for kind in CATALOGUE if issubclass(kind, Started)]
ASKED = """
import sys
import torch
torch.set_num_threads({threads})
from accel.plans.plan import Plan
from accel.workload import Replica
plan, replica = Plan.parse(sys.argv[1]), Replica()
with plan.apply(replica):
    ((_, proof),) = plan.proofs(replica)
print(proof.took_effect, proof.evidence)
"""
# What shows on every machine with two cores and more; what needs an environment or a package is skipped where it is not there.
PLANS = {
    'env_var("OMP_SCHEDULE=dynamic")': "",
    "omp_wait_policy": "",
    'omp_wait_policy("active")': "",
    'openmp_affinity(places="threads")': "",
    f'openmp_affinity(cpus="{" ".join(map(str, allowed_cpus()[:2]))}")': "",
    "interop_threads(n=3)": "its call is its start",
    'onednn("strict")': "all processes are so",
    "allocator": "",
    'allocator("jemalloc")': "",
}


def seen(plan: str, *, started: bool) -> tuple[bool, str]:
    """Whether a fresh process that was started with the plan, or was not, sees that it took effect."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))
    }
    own["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    start = Plan.parse(plan).start
    done = subprocess.run(
        [sys.executable, "-c", ASKED.format(threads=min(len(allowed_cpus()), 2)), plan],
        env=start.of_child(own) if started else own, capture_output=True, text=True, check=True,
    )  # fmt: skip
    took, _, evidence = done.stdout.strip().partition(" ")
    return took == "True", evidence


@pytest.mark.parametrize("plan", PLANS)
def test_it_shows_in_a_process_that_was_started_with_it_and_in_no_other(plan):
    if (
        "allocator" in plan
        and library_file(LIBRARIES["jemalloc" if "jemalloc" in plan else "tcmalloc"]) is None
    ):
        pytest.skip("the library is not installed")
    if ("omp" in plan or "openmp" in plan) and len(allowed_cpus()) < 2:
        pytest.skip("one CPU")
    took, evidence = seen(plan, started=True)
    assert took, evidence
    if not PLANS[plan]:
        took, evidence = seen(plan, started=False)
        assert not took, evidence


def test_every_entry_is_asked_or_needs_an_environment():
    asked = {Plan.parse(plan).names[0] for plan in PLANS}
    assert {kind.name for kind in STARTED} - asked == {"torch_version", "ipex", "intel_openmp"}


@pytest.mark.parametrize("kind", STARTED, ids=lambda kind: kind.name)
def test_a_running_kernel_refuses_it_and_says_how_to_start_with_it(kind):
    entry = EnvVar("A=1") if kind is EnvVar else kind()
    how = "--as-kernel NAME" if entry.start() else f"Restart the kernel, and run this first: {entry.lines}"
    how = entry.missing()[0].do if entry.missing() else how
    with pytest.raises(AccelError, match=re.escape(how)):
        LivePlan(training().workload()).keep(Plan((entry,)))


def test_the_first_knob_needs_no_name():
    assert str(Plan.parse('torch_version("2.9")')) == 'torch_version(version="2.9")'
    with pytest.raises(AccelError, match="knobs but the first are given by name"):
        Plan.parse("loader_workers(2, 4)")


@pytest.mark.parametrize(
    ("text", "why"), [("A", "no list of NAME=VALUE"), ("1A=2", "no list"), ("A='", "cannot be read")]
)
def test_variables_that_cannot_be_read_are_refused(text, why):
    with pytest.raises(AccelError, match=why):
        EnvVar(text).start()


@pytest.mark.parametrize(
    "text",
    [
        "PYTHONPATH=/x",
        "RANK=1",
        "ACCEL_FOLDER=/x",
        "LD_PRELOAD=/x.so",
        "OMP_DISPLAY_ENV=TRUE",
        f"HOME={os.environ.get('HOME', '')}",
    ],
)
def test_variables_that_are_not_the_users_to_set_are_refused_with_what_to_do(text):
    (reason,) = EnvVar(text).why_not(training().workload(), read_machine())
    assert reason.do


def test_a_library_that_is_not_there_is_a_reason_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("accel.accelerations.allocator.library_file", lambda names: None)
    reasons = by_name("allocator")().why_not(training().workload(), read_machine())
    assert any("apt-get install libtcmalloc-minimal4" in reason.do for reason in reasons)
