"""What dynamo tells while a cell compiles, for each way of compiling; the "eager" backend builds no code."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import torch
from torch import nn

from accel.profiling.compile_watch import GRAPH_BREAK_LOGS, CompileWatch
from accel.views.profile.compilation import COMPILATION
from accel.workbench import Workbench


class Talks(nn.Module):
    """Breaks its graph at a line that is known, and guards on a number."""

    def __init__(self):
        super().__init__()
        self.linear, self.factor = nn.Linear(4, 4), 1.0

    def forward(self, x):
        x = self.linear(x)
        print(end="")
        return x * self.factor


LINE = Talks.forward.__code__.co_firstlineno + 2  # of the print
# Dynamo says where a failed guard belongs only from torch 2.9 on; before, it is where the resumed code begins: at the break.
RESUMES_BELOW = 1 if torch.__version__ >= torch.torch_version.TorchVersion("2.9") else 0


class Quiet(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def watch_of(work):
    with CompileWatch() as watch:
        work()
    return watch.found()


def wrapped(model):
    return torch.compile(model, backend="eager")


def in_place(model):
    model.compile(backend="eager")
    return model


def as_step(model):
    return torch.compile(lambda x: model(x), backend="eager")


@pytest.mark.parametrize("compiled", [wrapped, in_place, as_step])
def test_one_graph_without_breaks_for_each_way_of_compiling(compiled):
    found = watch_of(lambda: compiled(Quiet())(torch.randn(2, 4)).sum().backward())
    assert found.graphs == 1
    assert found.compile_s > 0
    assert (found.recompilations, found.graph_breaks, found.reached_limit, found.notes) == ((), (), False, ())
    assert str(found).startswith("torch.compile: 1 graph, ")


@pytest.mark.parametrize("compiled", [wrapped, in_place])
def test_a_graph_break_is_told_with_its_reason_and_the_users_line(compiled):
    found = watch_of(lambda: compiled(Talks())(torch.randn(2, 4)))
    assert found.graphs == 2
    (broken,) = found.graph_breaks
    assert broken.filename == __file__
    assert broken.line == LINE
    assert "print" in broken.reason
    assert "Hint" not in broken.reason
    assert broken.count == 1
    assert f"line {LINE}" in str(found)


def test_a_recompilation_is_told_with_its_guard_and_function():
    model = Quiet()
    compiled = wrapped(model)
    found = watch_of(lambda: (compiled(torch.randn(2, 4)), compiled(torch.randn(5, 4))))
    (again,) = found.recompilations
    assert again.function == "forward"
    assert "size mismatch at index 0. expected 2, actual 5" in again.reason
    assert (again.filename, again.count) == (__file__, 1)
    assert again.line == Quiet.forward.__code__.co_firstlineno
    assert found.graphs == 2


def test_the_same_guard_failing_again_and_again_is_one_row_and_the_limit_is_told():
    def add(x, name):
        return x + len(name)

    compiled = torch.compile(add, backend="eager")
    found = watch_of(lambda: [compiled(torch.randn(3), "a" * length) for length in range(12)])
    assert found.reached_limit
    (again,) = found.recompilations
    assert again.count == 7  # the limit is 8 graphs
    assert again.function == "add"
    assert "name == ''" in again.reason
    assert "limit reached" in str(found)


def test_a_function_after_a_graph_break_is_named_after_its_own():
    model = Talks()
    compiled = wrapped(model)

    def work():
        for factor in (1.0, 2.0):
            model.factor = factor
            compiled(torch.randn(2, 4))

    (again,) = watch_of(work).recompilations
    assert again.function == f"forward (after line {LINE})"
    assert again.line == LINE + RESUMES_BELOW
    assert "factor" in again.reason


def test_only_what_is_compiled_meanwhile_counts():
    compiled = wrapped(Quiet())
    compiled(torch.randn(2, 4))
    assert watch_of(lambda: compiled(torch.randn(2, 4))) is None
    assert watch_of(lambda: None) is None


def test_logs_are_as_before_and_nothing_is_printed(capfd):
    def state():
        loggers = [logging.getLogger(name) for name in (*GRAPH_BREAK_LOGS, "torch._dynamo.convert_frame")]
        return [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]

    before = state()
    watch_of(lambda: wrapped(Talks())(torch.randn(2, 4)))
    assert state() == before
    assert "Graph break" not in "".join(capfd.readouterr())


def test_logs_that_the_user_asked_for_go_on(capfd):
    torch._logging.set_logs(graph_breaks=True)
    try:
        found = watch_of(lambda: wrapped(Talks())(torch.randn(2, 4)))
        wrapped(Talks())(torch.randn(3, 4))
    finally:
        torch._logging.set_logs()
    assert len(found.graph_breaks) == 1
    assert capfd.readouterr().err.count("Graph break in user code") >= 1


def test_what_raised_while_compiling_does_not_stop_the_count():
    def work():
        wrapped(Quiet())(torch.randn(2, 4))
        1 / 0

    with pytest.raises(ZeroDivisionError), CompileWatch() as watch:
        work()
    assert watch.found().graphs == 1


FRESH = """
import sys, torch
from accel.profiling.compile_watch import CompileWatch
with CompileWatch() as watch:
    torch.ones(2) + 1
assert watch.found() is None
assert "torch._dynamo" not in sys.modules, "dynamo was imported"
with CompileWatch() as watch:
    torch.compile(lambda x: (x + 1, print(end=""))[0] * 2, backend="eager")(torch.ones(2))
found = watch.found()
assert found.graphs and found.graph_breaks[0].filename == "<string>", found
import logging
assert not logging.getLogger("torch._dynamo.symbolic_convert.__graph_breaks").propagate
print("ok")
"""


@pytest.mark.timeout(660)
def test_dynamo_is_never_imported_for_its_own_sake_and_is_heard_when_the_cell_imports_it():
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "ok", done.stderr
    assert "Graph break" not in done.stderr


CELL = """
for size in (8, 8, 8, 5):
    optimizer.zero_grad()
    compiled(torch.randn(size, 4)).sum().backward()
    optimizer.step()
"""


def test_a_profile_holds_and_shows_what_was_compiled():
    model = Quiet()
    workbench = Workbench({
        "torch": torch, "compiled": wrapped(model), "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }, spare_workers=0)  # fmt: skip
    try:
        profile = workbench.profile(CELL)
    finally:
        workbench.close()
    assert profile.compilation.graphs == 2
    assert "size mismatch" in profile.compilation.recompilations[0].reason
    lines = list(COMPILATION.text(profile))
    assert any("compiled again" in line for line in lines)
    assert "size mismatch" in " ".join(line.strip() for line in lines)
    assert max(map(len, lines)) <= 110
    assert "torch.compile: 2 graphs" in profile._repr_mimebundle_()["text/html"]
