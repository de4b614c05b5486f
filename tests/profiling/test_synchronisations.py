"""Calls that read a tensor back are counted with the user's line, and torch is as before afterwards."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accel.hooks.attribute_patches import AttributePatches
from accel.profiling.synchronisations import CALLS, SynchronisationWatch
from accel.workload.step_boundaries import find_steps
from tests.diagnosis.making import real


@pytest.fixture
def watched():
    """Run something under a watch, outside of any step; gives what was found."""

    def run(work):
        watch, patches = SynchronisationWatch(), AttributePatches()
        watch.install(patches)
        try:
            work()
        finally:
            patches.take_back()
        return watch.found(find_steps([]))

    return run


LOSS = torch.tensor(2.5)


@pytest.mark.parametrize(
    ("work", "call"),
    [
        (lambda: LOSS.item(), "Tensor.item"),
        (lambda: LOSS.tolist(), "Tensor.tolist"),
        (lambda: LOSS.cpu(), "Tensor.cpu"),
        (lambda: LOSS.numpy(), "Tensor.numpy"),
        (lambda: np.asarray(LOSS), "numpy.asarray"),
        (lambda: 1 if LOSS > 1 else 2, "bool"),
        (lambda: float(LOSS), "float"),
        (lambda: int(LOSS), "int"),
        (lambda: range(torch.tensor(3)), "int"),
        (lambda: print(LOSS), "print"),
        (lambda: f"{LOSS:.2f}", "format"),
    ],
)
def test_each_way_to_read_a_tensor_back_is_counted_once_with_its_line(watched, work, call):
    (found,) = watched(work)
    assert (found.call, found.calls, found.device) == (call, 1, "cpu")
    assert (found.filename, found.line) == (__file__, work.__code__.co_firstlineno)
    assert "LOSS" in found.text or "torch.tensor(3)" in found.text
    assert found.ms > 0


LOOP = """
{before}
for i in range(20):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    {each}
{after}
"""
SLOW_AT_FIRST = """
import time
waits = [0.0] * 19 + [0.3]  # as the first number read from a GPU waits for all that was launched before it
class Slow(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") == "item":
            time.sleep(waits.pop())
        return super().__torch_function__(function, types, args, kwargs or {})
slow = torch.tensor(1.0).as_subclass(Slow)
"""


def of_cell(each, before="", after="", setup=""):
    return real(LOOP.format(each=each, before=before, after=after), setup, timed=False).profile


def test_calls_and_time_are_per_step():
    (found,) = of_cell("for _ in range(3): loss.item()").synchronisations
    assert found.calls == 3
    assert str(found).startswith("Tensor.item at cell, line ")
    assert "loss.item() (3 a step, " in str(found)


def test_calls_after_and_before_the_loop_are_not_of_a_step():
    profile = of_cell(
        "if i % 2: total = loss.item()",
        before="[x.sum().item() for _ in range(2000)]",
        after="[loss.item() for _ in range(2000)]",
    )
    (found,) = profile.synchronisations
    assert found.text.strip() == "if i % 2: total = loss.item()"
    assert 0 < found.calls < 1


def test_one_long_first_wait_is_not_of_every_step():
    (found,) = of_cell("slow.item()", setup=SLOW_AT_FIRST).synchronisations
    assert found.calls == 1
    assert found.ms < 300 / 20 / 2  # half of what that one wait comes to when all 20 steps share it


def test_what_torch_calls_itself_is_not_the_users(watched):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)  # reads its step counters with .item()

    def work():
        model(torch.ones(1, 2)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    assert watched(work) == ()


def test_a_library_that_reads_back_counts_for_the_users_line(watched):
    found = watched(lambda: np.mean([LOSS, LOSS]))
    assert found
    assert {(call.filename, call.text) for call in found} == {
        (__file__, "found = watched(lambda: np.mean([LOSS, LOSS]))")
    }


def test_torch_is_as_before_afterwards(watched):
    before = {name: vars(torch.Tensor).get(name) for name in CALLS}
    watched(lambda: LOSS.item())
    assert {name: vars(torch.Tensor).get(name) for name in CALLS} == before


def test_an_exception_goes_through_and_is_counted(watched):
    def work():
        with pytest.raises(RuntimeError):
            torch.ones(2).item()

    (found,) = watched(work)
    assert found.calls == 1


def test_a_subclass_with_its_own_torch_function_hears_only_what_the_user_asked(watched):
    heard = []

    class Listening(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            heard.append(getattr(function, "__name__", str(function)))
            return super().__torch_function__(function, types, args, kwargs or {})

    tensor = torch.tensor(1.0).as_subclass(Listening)
    heard.clear()
    (found,) = watched(lambda: tensor.item())
    assert found.call == "Tensor.item"
    assert heard == ["item"]


def test_a_compiled_function_that_reads_back_is_not_compiled_again(watched):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()

    @torch.compile(backend="eager")
    def step(x):
        y = x * 2
        return y + y.sum().item()

    watched(lambda: step(torch.ones(3)))
    once = dict(counters["stats"])
    watched(lambda: step(torch.ones(3)))
    step(torch.ones(3))
    assert dict(counters["stats"]) == once
