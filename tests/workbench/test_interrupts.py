"""An interrupt may arrive between any two lines of keep and undo: the change is whole, or it was not made."""

from __future__ import annotations

import signal
import sys
import threading

import pytest
from torch import nn
from torch.utils.data import DataLoader

from accel.workbench import Workbench
from accel.workload.uninterrupted import lost_interrupts, uninterrupted

SETUP = """
import torch
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 3, 4, 4), torch.arange(8) % 2), 4)
"""
CELL = """
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
PLAN = "loader_workers(n=1)+channels_last+fused_optimizer"
MOMENTS = 40  # of each command, spread over its lines


@pytest.fixture
def workbench():
    namespace = {}
    exec(SETUP, namespace)
    workbench = Workbench(namespace, spare_workers=0)
    workbench.profile(CELL)
    yield workbench
    workbench.close()


def in_force(namespace):
    """What a plan changes, as it is now."""
    model, optimizer, loader = (namespace[name] for name in ("model", "optimizer", "loader"))
    return (
        nn.Module.__call__, DataLoader.__iter__, loader.num_workers, optimizer.defaults["fused"],
        optimizer.param_groups[0]["fused"], "_compiled_call_impl" in vars(model),
    )  # fmt: skip


class Interrupting:
    """SIGINT as our code comes to the nth line that it has not been at before; `lines` counts them."""

    def __init__(self, at: int = 0) -> None:
        self._at, self._been = at, set()

    @property
    def lines(self) -> int:
        return len(self._been)

    def __enter__(self):
        sys.settrace(self._called)
        return self

    def __exit__(self, *exc_info):
        sys.settrace(None)

    def _called(self, frame, event, argument):
        return self._line if "/accel/" in frame.f_code.co_filename else None

    def _line(self, frame, event, argument):
        where = frame.f_code, frame.f_lineno
        if event == "line" and where not in self._been:
            self._been.add(where)
            if self.lines == self._at:
                signal.raise_signal(signal.SIGINT)
        return self._line


def moments(run):
    """Lines at which to interrupt what this runs."""
    with Interrupting() as counting:
        run()
    return range(1, counting.lines - 2, max(1, counting.lines // MOMENTS))


@pytest.mark.parametrize("command", ["keep", "undo"])
def test_status_says_what_is_in_force_whenever_an_interrupt_came(workbench, command) -> None:
    plain = in_force(workbench.namespace)
    workbench.keep(PLAN)
    kept = in_force(workbench.namespace)[2:]
    workbench.undo()
    run = {"keep": lambda: workbench.keep(PLAN), "undo": workbench.undo}[command]
    if command == "undo":
        workbench.keep(PLAN)
    seen = set()
    for at in moments(run):
        workbench.undo() if command == "keep" else workbench.keep(PLAN)
        with pytest.raises(KeyboardInterrupt), Interrupting(at):
            run()
        is_kept = bool(workbench.kept)
        seen.add(is_kept)
        now = in_force(workbench.namespace)
        assert (now[2:] == kept and now[0] is not plain[0]) if is_kept else now == plain, f"at line {at}"
    workbench.undo()
    assert in_force(workbench.namespace) == plain
    assert seen == {True, False}, "interrupts before and after the change were among them"


def test_an_interrupt_as_a_profile_begins_leaves_nothing_patched(workbench) -> None:
    plain = in_force(workbench.namespace)

    def begin_and_end(session) -> None:
        with session:
            pass

    begin_and_end(workbench.begin_profile(CELL, CELL))
    second = workbench.begin_profile(CELL, CELL)
    for at in moments(lambda: begin_and_end(second)):
        session = workbench.begin_profile(CELL, CELL)
        with pytest.raises(KeyboardInterrupt), Interrupting(at):
            begin_and_end(session)
        session.__exit__(None, None, None)  # as the notebook does when the cell is over
        assert in_force(workbench.namespace) == plain, f"at line {at}"


def test_an_interrupt_held_back_arrives_when_the_block_is_over() -> None:
    done = []

    def change() -> None:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            done.append("all of the block")

    with pytest.raises(KeyboardInterrupt):
        change()
    assert done == ["all of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Swallowing:
    """Interrupts its own finalizer: what that raises Python prints, and goes on."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_a_finalizer_swallowed_is_raised_in_the_next_turn(monkeypatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: None)
    with lost_interrupts() as raise_lost:
        raise_lost()
        Swallowing()
        with pytest.raises(KeyboardInterrupt):
            raise_lost()
        raise_lost()  # it is raised once
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_may_change_things_too() -> None:
    done = []

    def change() -> None:
        with uninterrupted():
            done.append(True)

    thread = threading.Thread(target=change)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_cell_that_puts_back_what_it_saved_of_a_profile_leaves_the_original(workbench) -> None:
    plain = in_force(workbench.namespace)
    workbench.profile("saved = nn.Module.__call__, torch.utils.data.DataLoader.__iter__\n" + CELL)
    namespace = workbench.namespace
    nn.Module.__call__, DataLoader.__iter__ = namespace["saved"]
    assert in_force(namespace) != plain
    workbench.keep("channels_last")
    saved = nn.Module.__call__
    workbench.undo()
    nn.Module.__call__ = saved
    workbench.undo()
    assert in_force(namespace) == plain


def test_a_patch_of_the_cell_itself_stays(workbench) -> None:
    plain = nn.Module.__call__
    mine = lambda module, *args: plain(module, *args)
    workbench.profile(CELL)
    nn.Module.__call__ = mine
    try:
        workbench.keep("channels_last")
        workbench.undo()
        assert nn.Module.__call__ is mine
    finally:
        nn.Module.__call__ = plain
