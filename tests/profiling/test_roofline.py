"""Achieved rates against peaks, on costs made by hand and on a real profile."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from accel.errors import AccelError
from accel.labs.models import CNN
from accel.machine.peaks import Copies, CopyPeak, DevicePeaks, Peaks
from accel.profiling.device_work import Copied
from accel.profiling.op_cost import OpCost
from accel.profiling.roofline import hold_against
from accel.views.profile.roofline import ROOFLINE
from accel.workbench import Workbench

CPU = DevicePeaks("cpu", "a processor", 2, (("float32", 1e11), ("bfloat16", 4e11)), 2e10, 1 << 20, 1e11)
GPU = DevicePeaks("cuda:0", "a GPU", 0, (("float32", 1e13), ("tf32", 8e13), ("bfloat16", 2e14)), 1e12)
PEAKS = Peaks((CPU, GPU), "2.14", "2026-01-31T10:00:00", 2.0)


def cost(op="aten::mm", *, ms=10.0, flops=5e8, moved=4e6, dtype="float32", calls=1.0, **others):
    made = OpCost(op, "forward", "head", "[4, 4] × [4, 4]", dtype, calls, ms, flops, moved)
    return replace(made, **others)


def only_point(*costs):
    return hold_against(costs, PEAKS).points[0]


def test_computing_that_takes_longer_than_moving_is_bound_by_it():
    point = only_point(cost(ms=10.0, flops=5e8, moved=4e6))
    assert point.bound == "compute"
    assert point.attainable_ms == pytest.approx(5.0)
    assert point.attained == pytest.approx(0.5)
    assert (point.flops_per_s, point.bytes_per_s) == pytest.approx((5e10, 4e8))
    assert point.intensity == pytest.approx(125)


def test_moving_that_takes_longer_is_bound_by_memory_and_small_data_by_the_caches():
    large = only_point(cost(ms=10.0, flops=1e6, moved=1e8))
    assert (large.bound, large.attainable_ms) == ("memory", pytest.approx(5.0))
    many_small = only_point(cost(ms=10.0, flops=1e6, moved=1e8, calls=1000.0))
    assert (many_small.bound, many_small.attainable_ms) == ("memory", pytest.approx(1.0))


def test_bfloat16_is_held_against_its_own_peak():
    assert only_point(cost(dtype="bfloat16")).attainable_ms == pytest.approx(5e8 / 4e11 * 1e3)


def test_work_on_a_gpu_is_timed_there_and_float32_above_its_peak_used_tensor_cores():
    slow = only_point(cost(device="cuda:0", device_ms=1.0, flops=5e9))
    assert (slow.ms, slow.attained) == (1.0, pytest.approx(0.5))
    fast = only_point(cost(device="cuda:0", device_ms=1.0, flops=4e10))
    assert fast.attained == pytest.approx(0.5)


def test_a_copy_to_the_gpu_is_held_against_the_measured_copies_and_not_against_memory():
    rows = tuple(
        CopyPeak("cpu", "cuda:0", rate, 8.0, memory) for memory, rate in (("pinned", 2e10), ("pageable", 5e9))
    )
    peaks = replace(PEAKS, copies=Copies(rows))
    moved = cost(
        "aten::copy_", flops=0.0, moved=2e8, device="cuda:0", device_ms=40.0
    )  # 1e8 bytes read, and as many written

    def held(copied):
        return hold_against([replace(moved, copied=copied)], peaks)

    pageable, pinned = (held(Copied("host to device", memory)).points[0] for memory in ("pageable", "pinned"))
    assert (pageable.bound, pageable.bytes_per_s, pageable.attained) == (
        "link",
        pytest.approx(2.5e9),
        pytest.approx(0.5),
    )
    assert pinned.attained == pytest.approx(0.125)
    back, within = (held(Copied(kind, "pinned")).points[0] for kind in ("device to host", "device to device"))
    assert back.bound == within.bound == "memory"  # one was not measured, the other stays on the device
    assert "copying" in str(held(Copied("host to device", "pinned")))
    assert held(Copied("host to device", "pinned")).modules[0].bound == "link"


def test_a_device_without_peaks_and_an_unknown_cost_are_said():
    roofline = hold_against(
        [cost(), cost("aten::odd", flops=None, moved=None), cost(device="cuda:7", device_ms=20.0)], PEAKS
    )
    assert [point.op for point in roofline.points] == ["aten::mm"]
    assert roofline.known_share == pytest.approx(10 / 40)
    assert any("cuda:7" in note for note in roofline.notes)
    assert any("aten::odd" in note for note in roofline.notes)


def test_faster_than_the_peaks_asks_for_measuring_them_again():
    assert any("peaks --again" in note for note in hold_against([cost(ms=1.0)], PEAKS).notes)
    assert not any("peaks --again" in note for note in hold_against([cost(ms=9.0)], PEAKS).notes)


def test_a_module_adds_its_operations_and_is_bound_by_most_of_them():
    roofline = hold_against([cost(ms=10.0), cost("aten::add", ms=4.0, flops=1e5, moved=2e7)], PEAKS)
    (module,) = roofline.modules
    assert (module.module, module.ms, module.share) == ("head", 14.0, pytest.approx(1))
    assert module.attainable_ms == pytest.approx(5.0 + 1.0)
    assert module.bound == "compute"


def test_nothing_known_gives_an_empty_roofline_that_prints():
    roofline = hold_against([cost("aten::odd", flops=None, moved=None)], PEAKS)
    assert (roofline.points, roofline.modules, roofline.known_share) == ((), (), 0)
    assert "Peaks measured" in str(roofline)


def test_text_html_and_dict_tell_the_same_and_escape():
    roofline = hold_against([cost("<b>op")], PEAKS)
    assert "<b>op" in str(roofline)
    html = roofline._repr_mimebundle_()["text/html"]
    assert "&lt;b&gt;op" in html
    assert "<b>op" not in html
    told = json.loads(json.dumps(roofline.to_dict()))
    assert told["points"][0]["attained"] == pytest.approx(0.5)
    assert "multiply-add counts as two" in told["method"]
    assert roofline.to_dataframe()["bound"].tolist() == ["compute"]
    assert max(map(len, str(roofline).splitlines())) <= 110


CELL = """
for _ in range(10):
    optimizer.zero_grad()
    criterion(model(images), labels).backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def profile_with_shapes():
    torch.manual_seed(0)
    model = CNN()
    workbench = Workbench({
        "model": model, "optimizer": torch.optim.Adam(model.parameters(), fused=True), "criterion": nn.CrossEntropyLoss(),
        "images": torch.randn(8, 1, 28, 28), "labels": torch.randint(0, 10, (8,)),
    }, spare_workers=0)  # fmt: skip
    yield workbench.profile(CELL, shapes=True)
    workbench.close()


def test_a_profile_with_shapes_has_a_roofline_and_shows_it(profile_with_shapes):
    roofline = profile_with_shapes.roofline()
    assert roofline.peaks is profile_with_shapes.peaks
    assert 0 < roofline.known_share <= 1
    assert {point.op for point in roofline.points} >= {
        "aten::mkldnn_convolution",
        "aten::convolution_backward",
        "aten::addmm",
    }
    assert sum(point.share for point in roofline.points) == pytest.approx(1)
    assert {point.bound for point in roofline.points} == {"compute", "memory"}
    by_hand = 2 * 8 * 14 * 14 * 64 * 9 * 32
    conv2 = next(p for p in roofline.points if p.module == "conv2" and p.op == "aten::mkldnn_convolution")
    assert conv2.flops == pytest.approx(by_hand)
    assert any(point.module == "conv2" for point in roofline.modules)
    longest = max(
        roofline.points, key=lambda point: point.ms
    )  # which one it is depends on what else the machine does
    assert any(
        f"{longest.op} {longest.shapes}"[:58].rstrip() in line for line in ROOFLINE.text(profile_with_shapes)
    )
    assert "How near this machine" in str(profile_with_shapes)
    json.dumps(profile_with_shapes.to_dict())


def test_a_profile_without_shapes_says_how_to_get_a_roofline(profile_with_shapes):
    with pytest.raises(AccelError, match="--shapes"):
        replace(profile_with_shapes, costs=()).roofline()
    assert list(ROOFLINE.text(replace(profile_with_shapes, costs=()))) == []
