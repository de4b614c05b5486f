"""A probed loop behaves as the loop the user wrote, and marks only what is waiting for data."""

from __future__ import annotations

import ast
import textwrap
import traceback
from typing import Any

import pytest
from capturing import capture, notebook

from accel.workload import PhaseMarks
from accel.workload.loop_probe import QUIET_ITERATIONS, ProbeLoops


def run(source: str, namespace: dict[str, Any], *, probed: bool) -> dict[str, Any]:
    tree = ast.parse(textwrap.dedent(source))
    if probed:
        tree = ast.fix_missing_locations(ProbeLoops().visit(tree))
    with PhaseMarks():
        exec(compile(tree, "<cell>", "exec"), namespace)
    return namespace


LOOPS = {
    "else without break": "for i in range(3): out.append(i)\nelse: out.append('else')",
    "break skips else": "for i in range(3):\n    if i == 1: break\nelse: out.append('else')\nout.append(i)",
    "continue": "for i in range(4):\n    if i % 2: continue\n    out.append(i)",
    "nested": "for i in range(2):\n    for j in 'ab': out.append((i, j))",
    "list that grows": "items = [1]\nfor i in items:\n    if i < 4: items.append(i + 1)\n    out.append(i)",
    "unpacking": "for a, (b, *c) in [(1, (2, 3, 4))]: out.append((a, b, c))",
    "attribute target": "class K: pass\nk = K()\nfor k.x in range(3): out.append(k.x)",
    "sequence protocol": """
class Old:
    def __getitem__(self, i):
        if i == 3: raise IndexError
        return i
for i in Old(): out.append(i)
""",
    "generator is closed at break": """
def items():
    try:
        yield 1
        yield 2
    finally:
        out.append("closed")
for i in items(): break
out.append("after")
""",
    "exception from the iterator": """
def items():
    yield 1
    raise KeyError("no more")
try:
    for i in items(): out.append(i)
except KeyError as error: out.append(str(error))
""",
    "an iterator that goes on after a loop": "it = iter(range(5))\nfor i in it:\n    if i == 1: break\nout.extend(it)",
    "not iterable": "try:\n    for i in 5: pass\nexcept TypeError as error: out.append(str(error))",
    "comprehension": "out.extend(i for i in range(3))",
    "in a function": "def f():\n    for i in range(3): yield i\nout.extend(f())",
}


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS.keys())
def test_a_probed_loop_does_what_the_loop_does(source: str) -> None:
    plain, probed = run(source, {"out": []}, probed=False), run(source, {"out": []}, probed=True)
    assert plain["out"] == probed["out"] != []
    assert plain.keys() == probed.keys()


def test_line_numbers_of_a_probed_cell_stay() -> None:
    source = "x = 1\n\nfor i in [\n    1,\n    0]:\n    y = 1 / i\n"
    with pytest.raises(ZeroDivisionError) as raised:
        run(source, {}, probed=True)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].lineno == 6


def test_a_function_of_the_cell_runs_as_written_when_the_profile_is_over() -> None:
    namespace = run("def f():\n    return [i for i in range(3)]\nfor i in f(): pass", {}, probed=True)
    assert namespace["f"].__code__.co_names == ("range",)
    assert namespace["f"]() == [0, 1, 2]


@pytest.mark.parametrize("parameters", [2, QUIET_ITERATIONS + 10])
def test_a_loop_that_holds_nothing_of_a_step_is_not_waiting_for_data(parameters: int) -> None:
    _, recording = capture(
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            for number in numbers:
                total = number + 1
        """,
        notebook(f"numbers = range({parameters})"),
    )
    assert {mark.key for mark in recording.marks if mark.phase == "data" and 0 <= mark.key < 1000} == {2}
    assert recording.steps.counts["data"] == 8  # six batches, the end of the loop, and making the iterator


def test_a_loop_that_only_reads_a_loader_is_waiting_for_data() -> None:
    workload, recording = capture("total = 0\nfor x, y in loader: total = total + x.sum()", notebook())
    assert recording.steps.counts["data"] == 8
    assert workload.boundary == "none"


def test_a_loop_left_in_its_first_turn_keeps_its_mark() -> None:
    _, recording = capture("for i in range(0, 24, 4):\n    model(X[i:i + 4])\n    break", notebook())
    assert recording.steps.counts == {"data": 1, "forward": 1}


def test_a_generator_that_reads_a_loader_is_one_wait_not_two() -> None:
    _, recording = capture(
        """
        def doubled():
            for x, y in loader:
                yield 2 * x, y
        for x, y in doubled():
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        notebook(),
    )
    opened = 0
    for mark in recording.marks:
        if mark.phase == "data":
            opened += 1 if mark.begins else -1
            assert opened in (0, 1)
    assert len(recording.steps.steps) == 6


HOSTILE = """
class AttributeDict(dict): __getattr__ = dict.__getitem__
class Raises:
    def __getattr__(self, name): raise RuntimeError(name)
    shape = property(lambda self: 1 / 0)
class Shaped: shape = X.numpy()
class NoSize(torch.utils.data.Sampler):
    batch_size = property(lambda self: 1 / 0)
    def __iter__(self): return iter([[0, 1], [2]])
items, got = [AttributeDict(lr=0.1), Raises(), Shaped()], []
loader = DataLoader(items, batch_sampler=NoSize(), collate_fn=list)
"""


def test_nothing_that_the_users_own_classes_raise_ends_the_training() -> None:
    train = "criterion(model(X), Y).backward(); optimizer.step()\n"
    namespace = notebook(HOSTILE)
    cell = f"for item in items:\n    got.append(item); {train}for batch in loader:\n    got += batch; {train}"
    workload, recording = capture(cell, namespace)
    assert all(got is item for got, item in zip(namespace["got"], 2 * namespace["items"], strict=True))
    assert (workload.steps, len(recording.steps.steps)) == (5, 5)
