"""A step that is made of tiny operations is found, on a CPU and on a GPU; one that computes is not."""

from __future__ import annotations

from functools import cache

from accel.diagnosis.launch_bound import launch_bound
from accel.profiling.device_activity import DeviceActivity
from tests.diagnosis.making import by_hand, real, row


@cache
def faulty():
    tiny = (
        row("aten::addmm", "forward", 0.3, calls=1_000.0),
        row("aten::mul_", "optimizer", 0.3, calls=1_000.0),
    )
    few = (row("aten::t", "forward", 0.002, calls=100.0), row("aten::mm", "backward", 0.3, calls=2.0))
    return by_hand({"forward": 0.4, "backward": 0.3, "optimizer": 0.3}, (*tiny, *few))


def test_a_real_step_of_a_small_model_calls_many_operations():
    assert sum(row.calls for row in real(timed=False).profile.rows) > 20


@cache
def sound():
    return real(setup="model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))\n"
                "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                "x, y = torch.randn(1024, 512), torch.randint(0, 4, (1024,))")  # fmt: skip


def gpu(gaps):
    return DeviceActivity("cuda:0", 10.0, 0.6 - gaps / 2, 0.4 + gaps / 2, gaps, (), (), (), 900.0, 4.2, 0.0)


def test_a_step_of_tiny_operations_is_found_with_their_number():
    finding = launch_bound(faulty())
    assert finding.share > 0.35
    assert "operations a step" in finding.evidence[0]
    assert finding.suggests == ("compile_model",)


def test_launch_gaps_of_a_gpu_are_found_with_its_kernels():
    finding = launch_bound(by_hand({"forward": 1.0}, devices=(gpu(0.3),)))
    assert finding.share == 0.3
    assert "900 kernels a step, median 4.2 µs" in finding.evidence


def test_a_gpu_that_waits_for_something_else_is_not():
    assert launch_bound(by_hand({"forward": 1.0}, devices=(gpu(0.01),))) is None
