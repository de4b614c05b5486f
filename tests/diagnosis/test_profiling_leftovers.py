"""What was left on from looking for faults is found, each with what takes it away; a plain cell has nothing."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from functools import cache

import torch

from accel.diagnosis import Evidence
from accel.diagnosis.profiling_leftovers import profiling_leftovers
from accel.profiling.whole_run import WholeRun
from accel.workload.run_conditions import RunConditions
from tests.diagnosis.making import TRAIN, by_hand, real, row


def inside(opening, cell=TRAIN):
    return f"with {opening}:" + textwrap.indent(cell, "    ")


@cache
def faulty():
    return real(inside("torch.autograd.set_detect_anomaly(True)"))


@cache
def sound():
    return real()


def test_anomaly_mode_is_found_with_the_share_of_its_checks_and_its_line():
    finding = profiling_leftovers(faulty())
    assert "anomaly mode" in finding.title
    assert 0 < finding.share <= 0.9
    assert finding.line == 1
    assert finding.prediction.low > 1
    assert finding.suggests == ("detect_anomaly_off",)
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_set_in_an_earlier_cell_is_found_without_a_line():
    torch.autograd.set_detect_anomaly(True)
    try:
        finding = profiling_leftovers(real())
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert "anomaly mode" in finding.title
    assert finding.line == 0


def test_a_profiler_of_the_users_own_is_found():
    finding = profiling_leftovers(real(inside("torch.profiler.profile()")))
    assert "torch.profiler" in finding.title
    assert finding.line == 1


def test_gradcheck_is_found():
    check = (
        "torch.autograd.gradcheck(torch.square, (torch.ones(2, dtype=torch.float64, requires_grad=True),))\n"
    )
    finding = profiling_leftovers(real(check + TRAIN))
    assert (finding.line, finding.prediction) == (1, None)
    assert "gradcheck" in finding.remedy
    assert finding.suggests == ()


def test_deterministic_algorithms_are_found():
    torch.use_deterministic_algorithms(True)
    try:
        finding = profiling_leftovers(real())
    finally:
        torch.use_deterministic_algorithms(False)
    assert "deterministic algorithms" in finding.title


def test_debugging_variables_are_found_by_name(monkeypatch):
    monkeypatch.setenv("TORCH_SHOW_CPP_STACKTRACES", "1")
    finding = profiling_leftovers(real())
    assert finding.remedy == "Unset TORCH_SHOW_CPP_STACKTRACES and restart the kernel."


def on_gpu(benchmark):
    """The namespace's model says where it is by its parameters; a GPU cannot be had here."""

    class OnGpu(Evidence):
        on_gpu = True

    conditions = RunConditions(2, False, False, benchmark, False)
    evidence = by_hand(
        {"forward": 1.0},
        (row("aten::cudnn_convolution", "forward", 0.5),),
        whole_run=WholeRun(conditions=conditions),
    )
    return OnGpu(evidence.profile, evidence.workload, evidence.machine)


def test_convolutions_on_a_gpu_without_benchmarking_are_found():
    finding = profiling_leftovers(on_gpu(benchmark=False))
    assert (finding.title, finding.suggests) == ("cudnn.benchmark off", ("cudnn_benchmark",))
    assert profiling_leftovers(on_gpu(benchmark=True)) is None


def test_on_a_cpu_nothing_is_said_of_cudnn():
    evidence = on_gpu(benchmark=False)
    assert profiling_leftovers(Evidence(evidence.profile, evidence.workload, evidence.machine)) is None


def test_a_profile_without_settings_says_nothing():
    profile = replace(sound().profile, whole_run=WholeRun())
    assert profiling_leftovers(Evidence(profile, sound().workload, sound().machine)) is None


def test_anomaly_mode_cannot_cost_what_it_does_not_touch():
    phases = {"forward": 0.4, "forward → backward": 0.1, "backward": 0.3, "optimizer": 0.2}
    checks = row("aten::ne", "backward", 0.1, calls=10.0)
    conditions = RunConditions(2, True, False, False, False)
    for count in (
        10.0,
        1e6,
    ):  # so many tracebacks would take longer than the step; a busy machine makes the same of few
        nodes = row("autograd::engine::evaluate_function: MmBackward0", "backward", 0.1, calls=count)
        evidence = by_hand(phases, (nodes, checks), whole_run=WholeRun(conditions=conditions))
        finding, touched = profiling_leftovers(evidence), 0.1 + 0.5
        assert finding.share <= touched
        assert finding.prediction.high <= 1 / (1 - touched - 0.1 * 0.4) + 1e-9
        assert 1 < finding.prediction.low <= finding.prediction.ratio <= finding.prediction.high
