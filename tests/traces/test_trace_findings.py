"""Findings of a trace alone: what its events show is found, what is not in it is not claimed, and nothing can be tried here."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import accel
from accel.diagnosis import RULES, Evidence, NotKnown, diagnose_trace
from accel.traces import open_trace
from accel.workbench.trace_findings import FIRST_STEP, ONE_STEP, UNDER_PROFILER
from tests.profiling.gpu_trace import PINNED, GpuTrace, training_on_gpu
from tests.traces.test_ranks import rank_events, write_ranks
from tests.traces.writing import H100, as_torch_writes, span, trace, training_events, write

STEP = 1000.0
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn"
REORDERING = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>()"


def steps_of(*spans, steps=5):
    """The same events in each step of 1 ms; a span is (name, begin, lasts) in µs, or with a category and arguments."""
    return [
        span(name, number * STEP + begin, lasts, **(more[0] if more else {}))
        for number in range(steps)
        for name, begin, lasts, *more in spans
    ]


def forward(begin=110, lasts=290, op="aten::addmm"):
    return op, begin, lasts, {"sequence": 1, "forward": 0}


def backward(begin=450, lasts=350, op="aten::mm"):
    node = ("autograd::engine::evaluate_function: MmBackward0", begin, lasts, {"sequence": 1, "forward": 1})
    return node, (op, begin + 2, lasts - 4)


def fetching(lasts, workers=0, begin=0):
    kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    return f"enumerate(DataLoader)#{kind}.__next__", begin, lasts, {"cat": "user_annotation"}


def updating(kind="Adam", lasts=80, ops=("aten::mul_", "aten::sqrt", "aten::addcdiv_")):
    within = [(op, 822 + i * (lasts - 4) / len(ops), (lasts - 4) / len(ops)) for i, op in enumerate(ops)]
    return (f"Optimizer.step#{kind}.step", 820, lasts, {"cat": "user_annotation"}), *within


def opened(tmp_path, events, **head):
    return accel.open_trace(write(tmp_path / "trace.json", trace(events, **head)))


def on_a_gpu(tmp_path, made):
    return opened(tmp_path, as_torch_writes(made.events), deviceProperties=[H100])


def found(report):
    return {finding.kind: finding for finding in report.findings}


def test_waiting_for_data_is_found_and_whether_there_are_workers(tmp_path):
    rest = (forward(), *backward(), *updating(ops=("aten::_fused_adam_",)))
    finding = found(opened(tmp_path, steps_of(fetching(100.0), *rest)))["input_bound"]
    assert finding.share == pytest.approx(0.1)
    assert finding.what.startswith("The training process makes each batch itself")
    assert "%accel try loader_workers" in finding.remedy
    finding = found(opened(tmp_path, steps_of(fetching(100.0, workers=2), *rest)))["input_bound"]
    assert finding.what.startswith("Workers make the batches")
    assert "%accel try" not in finding.remedy
    assert "input_bound" not in found(opened(tmp_path, steps_of(fetching(10.0), *rest)))


def test_what_the_profiler_itself_may_cost_is_no_waiting_for_data(tmp_path):
    of_samples = [("aten::select", 1.0 + 2 * i, 1.5) for i in range(45)]
    rest = (forward(), *backward())
    report = opened(tmp_path, steps_of(fetching(100.0), *of_samples, *rest))
    assert report.phases[-1].name != "data"
    assert Evidence.of_trace(report).share("data") > 0.09
    assert "input_bound" not in found(report)


@pytest.mark.parametrize(
    ("kind", "ops", "is_found"),
    [
        ("Adam", ("aten::mul_", "aten::sqrt", "aten::addcdiv_"), True),
        ("AdamW", ("aten::_foreach_mul_", "aten::_foreach_sqrt"), True),
        ("Adam", ("aten::_fused_adam_",), False),
        ("SGD", ("aten::mul_", "aten::add_"), True),  # with momentum
        ("SGD", ("aten::add_",), False),
        ("Muon", ("aten::mul_", "aten::mm"), False),
    ],
)
def test_an_optimizer_that_could_be_fused_is_found_by_its_range_and_its_operations(
    tmp_path, kind, ops, is_found
):
    report = opened(tmp_path, steps_of(forward(), *backward(), *updating(kind, ops=ops)))
    assert ("optimizer_not_fused" in found(report)) == is_found
    if is_found:
        assert found(report)["optimizer_not_fused"].what.startswith(
            f"{kind} makes about {len(ops)} operations"
        )


def test_of_a_step_with_a_closure_only_the_update_is_judged(tmp_path):
    closure = ("Optimizer.step#Adam.step", 100, 880, {"cat": "user_annotation"})
    ops = ("aten::mul_", "aten::sqrt", "aten::addcdiv_")
    update = [(op, 720 + 50 * i, 50) for i, op in enumerate(ops)]
    events = steps_of(closure, forward(110, 190), *backward(320, 380), *update)
    finding = found(opened(tmp_path, events))["optimizer_not_fused"]
    assert "15 % of each step" in finding.title
    assert finding.what.startswith("Adam makes about 3 operations")
    assert finding.prediction.high < 1.25  # without an optimizer the step would take 0.85 of its time


def test_a_real_trace_by_torch_tells_plain_from_fused(tmp_path):
    def traced(fused):
        # Large weights and one sample: the update is a third of the step. With small ones its share was near the least.
        model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
        optimizer = torch.optim.Adam(model.parameters(), fused=fused)
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in range(8):
                optimizer.zero_grad()
                model(torch.randn(1, 512)).square().mean().backward()
                optimizer.step()
        profiler.export_chrome_trace(str(tmp_path / "real.json"))
        return accel.open_trace(tmp_path / "real.json")

    # A trace that other work disturbed has nothing to tell of single operations: the first of twenty that tells is taken.
    told = (found(traced(fused=False)).get("optimizer_not_fused") for _ in range(20))
    finding = next(filter(None, told), None)
    assert finding is not None
    assert "%accel try fused_optimizer" in finding.remedy
    assert not any("optimizer_not_fused" in found(traced(fused=True)) for _ in range(3))


def test_many_tiny_operations_are_found_but_not_under_recorded_stacks(tmp_path):
    tiny = [forward(2.5 * i, 2.0, "aten::add") for i in range(240)]
    events = steps_of(*tiny, *backward(620, 100), *updating("SGD", ops=("aten::add_",)))
    finding = found(opened(tmp_path, events))["launch_bound"]
    assert finding.share > 0.35
    assert "%accel try compile_model" in finding.remedy
    report = opened(tmp_path, events, with_stack=1)
    assert "launch_bound" not in found(report)
    assert any("with_stack=True" in note for note in report.notes)
    report = opened(tmp_path, events, deviceProperties=[H100])  # the GPU may have worked, unrecorded
    assert "launch_bound" not in found(report)
    large = steps_of(forward(), *backward(), *updating("SGD", ops=("aten::add_",)))
    assert "launch_bound" not in found(opened(tmp_path, large))


def test_chains_of_elementwise_operations_are_found(tmp_path):
    def chain(*ops):
        return [forward(100 + 60 * i, 55, op) for i, op in enumerate(ops)]

    finding = found(opened(tmp_path, steps_of(*chain("aten::mul", "aten::add", "aten::sub"), *backward())))
    assert finding["memory_bound_elementwise"].share == pytest.approx(0.165 / 0.804, abs=0.05)
    broken = steps_of(*chain("aten::mul", "aten::mm", "aten::sub"), *backward())
    assert "memory_bound_elementwise" not in found(opened(tmp_path, broken))


def test_nan_checks_after_each_node_are_anomaly_mode_left_on(tmp_path):
    def checked(nodes, checks):
        spans = []
        for i in range(nodes):
            spans += backward(400 + 100 * i, 90)
            spans[-1] = ("aten::mm", 402 + 100 * i, 30)
            spans += [(op, 435 + 100 * i + 15 * j, 14) for j, op in enumerate(("aten::ne", "aten::any"))] * (
                i < checks
            )
        return opened(tmp_path, steps_of(forward(), *spans))

    finding = found(checked(4, 4))["profiling_leftovers"]
    assert "anomaly mode" in finding.title
    assert finding.prediction.high < 10
    assert "profiling_leftovers" not in found(checked(4, 1))


def idle_gpu(steps=7):
    """The gemm ends at 300 µs, and nothing is launched until 700."""
    made = GpuTrace()
    for _ in range(steps):
        made.phase("forward", 100, 500)
        made.launch("aten::mm", 110, GEMM, 120, 300)
        made.phase("backward", 600, 900)
        made.launch("aten::mm", 690, GEMM, 700, 900)
        made.end_step()
    return made


def test_a_gpu_that_waits_for_launches_is_found(tmp_path):
    finding = found(on_a_gpu(tmp_path, idle_gpu()))["launch_bound"]
    assert finding.share == pytest.approx(0.62, abs=0.05)
    assert "launch_bound" not in found(on_a_gpu(tmp_path, busy_gpu()))


def test_a_gpu_of_which_rows_are_missing_is_not_called_idle(tmp_path):
    made = idle_gpu()
    made.events = [e for i, e in enumerate(made.events) if not (e.device_type() != 0 and i % 2)]
    report = on_a_gpu(tmp_path, made)
    assert not report.completeness.is_complete
    assert not {"launch_bound", "hidden_synchronisation"} & set(found(report))


def busy_gpu(steps=7, name=GEMM):
    made = GpuTrace()
    for _ in range(steps):
        made.phase("forward", 0, 300)
        made.launch("aten::mm", 10, GEMM, 20, 500)
        made.launch("aten::convolution", 20, name, 500, 600)
        made.phase("backward", 300, 900)
        made.launch("aten::mm", 310, GEMM, 600, 1015)
        made.end_step()
    return made


def test_kernels_that_reorder_images_are_found_by_cudnns_name_for_them(tmp_path):
    report = on_a_gpu(tmp_path, busy_gpu(name=REORDERING))
    finding = found(report)["layout_nchw"]
    assert finding.share == pytest.approx(0.1, abs=0.01)
    assert "nchwToNhwcKernel&lt;float" in report._repr_mimebundle_()["text/html"]
    assert "layout_nchw" not in found(on_a_gpu(tmp_path, busy_gpu()))


def test_copies_that_the_gpu_waits_for_are_found_and_pinned_ones_are_not_called_pageable(tmp_path):
    assert "from pageable memory" in found(on_a_gpu(tmp_path, training_on_gpu()))["copy_bound"].what
    pinned = found(on_a_gpu(tmp_path, training_on_gpu(copy=PINNED)))["copy_bound"]
    assert "from pinned memory" in pinned.what
    assert "pin_memory" not in pinned.remedy
    assert "copy_bound" not in found(on_a_gpu(tmp_path, busy_gpu()))


def reading(lasts, steps=7):
    made = GpuTrace()
    for _ in range(steps):
        made.phase("forward", 0, 200)
        made.launch("aten::mm", 10, GEMM, 20, 400)
        made.phase("backward", 200, 300)
        made.launch("aten::mm", 210, GEMM, 400, 600)
        made.add("aten::item", 310, 310 + lasts, number=made._next())
        made.add("aten::_local_scalar_dense", 311, 309 + lasts, number=made._next())
        made.end_step()
    return made


def test_numbers_read_back_from_the_gpu_are_found_by_the_time_they_wait(tmp_path):
    finding = found(on_a_gpu(tmp_path, reading(290)))["hidden_synchronisation"]
    assert finding.share == pytest.approx(0.29, abs=0.02)
    assert "1 a step" in finding.evidence[0]  # not twice, for the operation inside it
    assert finding.line == 0
    assert "hidden_synchronisation" not in found(on_a_gpu(tmp_path, reading(5)))
    on_cpu = steps_of(forward(), *backward(), ("aten::item", 830, 100))
    assert "hidden_synchronisation" not in found(opened(tmp_path, on_cpu))


def test_waiting_for_other_ranks_is_found_in_each_ranks_own_report(tmp_path):
    report = accel.open_trace(write_ranks(tmp_path, rank_events(), rank_events(loading=250.0)))
    first, second = (found(each) for each in report.profiles)
    assert first["communication_bound"].share == pytest.approx(0.38, abs=0.01)
    assert second["communication_bound"].share < first["communication_bound"].share
    assert "Communication between ranks without overlap: 38 % of each step (rank 0; found on 2 of 2)" in str(
        report
    )
    assert "found on 2 of 2" in report._repr_mimebundle_()["text/html"]
    assert all(each.events is None for each in report.profiles)


@pytest.mark.parametrize("every", [True, False])
def test_reductions_in_every_micro_batch_are_found_where_ddps_reducer_is_named(tmp_path, every):
    spans = []
    for half, reduces in ((0, every), (400, True)):
        node, product = backward(half + 100, 280)
        spans += [forward(half + 10, 80), node, (*product[:2], 90)]
        if reduces:
            spans += [("torch::distributed::reducer::copy_bucket_to_grad", half + 200, 5),
                      ("c10d::allreduce_", half + 300, 40)]  # fmt: skip
    report = opened(tmp_path, steps_of(*spans, *updating("SGD", ops=("aten::add_",))))
    assert ("ddp_without_no_sync" in found(report)) == every


def test_nothing_can_be_tried_here_and_every_finding_says_what_it_was_seen_under(tmp_path):
    report = on_a_gpu(tmp_path, training_on_gpu())
    assert report.findings
    for finding in report.findings:
        assert finding.suggests == ()
        assert finding.remedy
        assert finding.wrong_when.endswith(UNDER_PROFILER)
    assert "Try:" not in str(report)
    assert "What to do about it" in str(report)


def test_a_rule_that_would_have_to_ask_for_the_notebook_or_the_machine_has_no_answer(tmp_path):
    evidence = Evidence.of_trace(opened(tmp_path, training_events(6)))
    for ask in (
        lambda: evidence.objects,
        lambda: evidence.machine.usable_cores,
        lambda: evidence.mentions("x"),
    ):
        with pytest.raises(NotKnown):
            ask()
    assert evidence.step_loader is None
    for rule in RULES:
        assert all(
            finding.kind == rule.__name__ for finding in diagnose_trace(evidence.profile, rules=(rule,))
        )


def test_a_rule_that_fails_costs_its_finding_and_not_the_report(tmp_path, monkeypatch):
    def broken(evidence):
        raise ZeroDivisionError("no steps")

    monkeypatch.setattr("accel.workbench.trace_findings.RULES", (broken, *RULES))
    report = opened(tmp_path, steps_of(fetching(100.0), forward(), *backward()))
    assert "input_bound" in found(report)
    assert any(
        "The rule broken failed on this trace (ZeroDivisionError: no steps)." in n for n in report.notes
    )


@pytest.mark.parametrize(
    ("steps", "mark", "said"),
    [
        (1, "", FIRST_STEP),
        (1, "ProfilerStep#0", FIRST_STEP),
        (1, "ProfilerStep#5", ONE_STEP),  # others came before it
        (2, "", ONE_STEP),  # the first is left out
        (5, "", ""),
    ],
)
def test_a_single_step_is_judged_unless_it_may_be_the_first_of_the_run(tmp_path, steps, mark, said):
    events = steps_of(fetching(500.0), forward(510, 100), *backward(620, 200), steps=steps)
    marks = [span(mark, 0.0, STEP, cat="user_annotation")] if mark else []
    report = opened(tmp_path, [*events, *marks])
    assert ("input_bound" in found(report)) == (said != FIRST_STEP)
    assert bool(report.findings) == (said != FIRST_STEP)
    assert [note for note in report.notes if note in (FIRST_STEP, ONE_STEP)] == [said] * bool(said)


@pytest.mark.parametrize("spans", [[fetching(500.0)], [forward()], [fetching(90.0), forward()]])
def test_without_training_nothing_is_advised_and_the_report_says_so(tmp_path, spans):
    report = opened(tmp_path, steps_of(*spans))
    assert report.findings == ()
    assert any("no advice" in note.lower() for note in report.notes)


def test_the_plain_reader_makes_no_findings(tmp_path):
    file = write(tmp_path / "t.json", trace(steps_of(fetching(100.0), forward(), *backward())))
    assert open_trace(file).findings == ()
