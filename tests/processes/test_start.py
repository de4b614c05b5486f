"""How a process begins: its variables, what is loaded before all others, and what several ask for together."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from accel.errors import AccelError
from accel.processes.start import OWN_PRELOAD, PRELOAD, Start, together


def test_the_usual_start_leaves_everything_as_it_is():
    assert not Start()
    assert Start().of_child({"A": "1"}) == {"A": "1"}
    assert Start().interpreter == sys.executable


def test_variables_are_added_and_taken_away():
    start = Start((("A", "2"),), unset=("B",))
    assert start.of_child({"A": "1", "B": "1", "C": "1"}) == {"A": "2", "C": "1"}


def test_what_is_preloaded_comes_before_what_the_kernel_preloads_and_goes_no_further():
    start = Start(preload=("/one.so", "/two.so"))
    given = start.of_child({PRELOAD: "/own.so"})
    assert given[PRELOAD] == "/one.so:/two.so:/own.so"
    asked = "from accel.processes.start import give_back_preload; give_back_preload(); import os; print(os.environ)"
    for own in ("", "/own.so"):
        environment = {
            **os.environ,
            OWN_PRELOAD: own,
            PRELOAD: "",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        printed = subprocess.run(
            [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True
        ).stdout
        assert (f"'{PRELOAD}': '{own}'" in printed) == bool(own)
        assert OWN_PRELOAD not in printed


def test_several_are_one_start():
    found = together(
        [
            Start((("A", "1"),), preload=("/one.so",)),
            Start((("A", "1"), ("B", "2")), python="/python", environment="x"),
        ]
    )
    assert found == Start((("A", "1"), ("B", "2")), preload=("/one.so",), python="/python", environment="x")


@pytest.mark.parametrize(
    ("starts", "why"),
    [
        ([Start((("A", "1"),)), Start((("A", "2"),))], "A=1 and A=2: a variable has one value"),
        (
            [Start(python="/a", environment="a"), Start(python="/b", environment="b")],
            "a process has one interpreter",
        ),
    ],
)
def test_what_cannot_be_together_says_so(starts, why):
    with pytest.raises(AccelError, match=why):
        together(starts)
