"""Every kind of figure: drawn from a real profile, refused with what to do where its data are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.errors import AccelError, UnknownName
from accel.machine.peaks import DevicePeaks, Peaks
from accel.profiling.memory_use import MemoryPoint, MemoryUse
from accel.profiling.op_cost import OpCost
from accel.profiling.step_timing import OneStep
from accel.views.profile.steps import WORDS

MIB = 2**20
EVIL = "<b>conv</b>"
MEMORY = MemoryUse(
    "cpu",
    (MemoryPoint(0.0, 0, "forward", ""), MemoryPoint(1.5, 6 * MIB, "backward", EVIL), MemoryPoint(2.0, 2 * MIB, "optimizer", "")),
    peak_bytes=6 * MIB, peak_phase="backward", peak_module=EVIL, peak_by=(("backward", EVIL, 6 * MIB),),
    allocated_bytes_per_step=9e6, allocations_per_step=40.0,
)  # fmt: skip


def test_steps_are_stacks_of_phases_with_warm_up_and_profiled_ones_marked(real_profile):
    figure = real_profile.figure("steps")
    bars = {trace.name: trace for trace in figure.data if trace.type == "bar"}
    steps = real_profile.timing.each_step
    assert {"Forward", "Backward", "Optimizer", "Between phases"} <= set(bars)
    heights = [sum(bar.y[i] for bar in bars.values()) for i in range(len(steps))]
    assert heights == pytest.approx([step.ms for step in steps])
    marked = {trace.name: list(trace.x) for trace in figure.data if trace.type == "scatter"}
    assert marked[WORDS["w"]] == [1]
    assert marked[WORDS["p"]] == [2, 3, 4, 5, 6, 7]


def test_an_unusually_slow_step_is_marked(real_profile):
    steps = (OneStep(0, 5, (("forward", 5.0),)), OneStep(5, 50, (("forward", 50.0),), is_outlier=True))
    figure = replace(real_profile, timing=replace(real_profile.timing, each_step=steps)).figure("steps")
    (slow,) = [trace for trace in figure.data if trace.name == WORDS["s"]]
    assert (list(slow.x), list(slow.y)) == ([2], [50])


def test_the_memory_curve_has_its_peak_marked_with_phase_and_module(real_profile):
    curve, peak = replace(real_profile, memory=(MEMORY,)).figure("memory").data
    assert list(curve.x) == [0.0, 1.5, 2.0]
    assert list(curve.y) == [0.0, 6.0, 2.0]
    assert (list(peak.x), list(peak.y)) == ([1.5], [6.0])
    assert peak.text[0] == "peak 6 MiB: Backward · &lt;b&gt;conv&lt;/b&gt;"


def test_without_steps_or_memory_the_error_says_what_to_do(real_profile):
    with pytest.raises(AccelError, match="--memory"):
        replace(real_profile, memory=()).figure("memory")
    with pytest.raises(AccelError, match="no training step was seen"):
        replace(real_profile, timing=replace(real_profile.timing, each_step=())).figure("steps")
    with pytest.raises(AccelError, match="no operations were profiled"):
        replace(real_profile, rows=()).figure()


def test_a_wrong_kind_gives_the_nearest_right_word(real_profile):
    with pytest.raises(UnknownName, match="Did you mean 'sunburst'"):
        real_profile.figure("sunbrust")


@pytest.mark.parametrize("kind", ["sunburst", "steps"])
def test_a_figure_is_no_widget_and_reads_on_any_page(real_profile, kind):
    import plotly.graph_objects as go

    figure = real_profile.figure(kind)
    assert type(figure) is go.Figure
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert figure.to_json()


@pytest.fixture
def with_costs(real_profile):
    """Two operations whose cost is known, one that only moves data, and round peaks: 100 GFLOP/s, 10 GB/s."""
    costs = (
        OpCost("aten::mm", "forward", "fc", "[64, 64]", "float32", 1, 1.0, flops=5e7, bytes=1e6),
        OpCost("aten::add", "backward", EVIL, "[64]", "float32", 2, 0.5, flops=1e5, bytes=4e6),
        OpCost("aten::copy_", "forward", "", "[64]", "float32", 2, 0.5, flops=0.0, bytes=4e6),
    )
    device = DevicePeaks("cpu", "A CPU", 2, (("float32", 1e11), ("bfloat16", 4e11)), 1e10)
    return replace(real_profile, costs=costs, peaks=Peaks((device,), "2.14", "2026-01-31T10:00", 1.0))


def test_the_roofline_puts_rates_under_measured_peaks(with_costs):
    figure = with_costs.figure("roofline")
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines"}
    assert list(lines) == ["cpu: float32 peak"]  # nothing ran in bfloat16
    assert (lines["cpu: float32 peak"].x[1], lines["cpu: float32 peak"].y[1]) == pytest.approx((10.0, 100.0))
    marks = {trace.name: trace for trace in figure.data if trace.mode == "markers"}
    assert (marks["Forward"].x[0], marks["Forward"].y[0]) == pytest.approx((50.0, 50.0))
    assert (marks["Forward"].marker.symbol[0], marks["Backward"].marker.symbol[0]) == ("circle", "square")
    assert "50 % of the attainable rate, bound by computing" in marks["Forward"].text[0]
    assert "25 % of the known time moves data and computes nothing" in figure.layout.title.text
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert "<b>" not in marks["Backward"].text[0]


def test_without_shapes_the_roofline_says_which_option_to_use(real_profile):
    with pytest.raises(AccelError, match="--shapes"):
        replace(real_profile, costs=()).figure("roofline")
