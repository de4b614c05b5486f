"""Reading numbers back from a GPU in every step is found, with its line; on a CPU nothing waits."""

from __future__ import annotations

from functools import cache

from accel.diagnosis.hidden_synchronisation import hidden_synchronisation
from accel.profiling.device_activity import DeviceActivity
from accel.profiling.synchronisations import Synchronisation
from tests.diagnosis.making import by_hand, real


def gpu(idle):
    return DeviceActivity("cuda:0", 10.0, 1 - idle, idle, 0.0, (), (), (), 100.0, 30.0, 0.0)


def reading(device="cuda:0", ms=2.0, filename="<cell>", idle=0.15):
    said = Synchronisation("Tensor.item", filename, 7, "    total += loss.item()", device, ms, 1.0)
    return by_hand({"forward": 1.0}, synchronisations=(said,), devices=(gpu(idle),))


@cache
def faulty():
    return reading()


@cache
def sound():
    return real("""
total = 0.0
for _ in range(14):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
""")


def test_the_line_is_named_and_the_cost_is_at_most_the_gpus_idle_time():
    finding = hidden_synchronisation(faulty())
    assert finding.line == 7
    assert "line 7" in finding.title
    assert finding.share == 0.15
    assert "total += loss.item()" in finding.evidence[0]
    assert finding.prediction.low == 1.0


def test_the_remedy_is_the_line_as_it_would_be_where_that_is_safe():
    cell = "total = 0.0\n\n\n\nfor x in data:\n    loss = f(x)\n    total += loss.item()\n"
    said = Synchronisation("Tensor.item", "<cell>", 7, "    total += loss.item()", "cuda:0", 2.0, 1.0)
    evidence = by_hand({"forward": 1.0}, source=cell, synchronisations=(said,), devices=(gpu(0.15),))
    remedy = hidden_synchronisation(evidence).remedy
    assert "Write `total += loss.detach().double()` there and `total = float(total)` after the loop" in remedy
    assert "For example" in hidden_synchronisation(faulty()).remedy


def test_a_line_of_another_file_is_named_with_its_file():
    finding = hidden_synchronisation(reading(filename="trainer.py"))
    assert finding.line == 0
    assert "trainer.py, line 7" in finding.title


def test_a_gpu_that_is_busy_all_the_time_loses_nothing():
    assert hidden_synchronisation(reading(idle=0.01)) is None


def test_a_tensor_on_the_cpu_is_not_waited_for():
    assert hidden_synchronisation(reading(device="cpu")) is None
