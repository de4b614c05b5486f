"""What Tab offers, without IPython."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from accel.accelerations import CATALOGUE
from accel.commands import COMMANDS, complete, fragment
from accel.plans.knobs import knobs_of
from accel.plans.plan import Plan
from accel.techniques.compiling.compile_backends import compile_backends

NAMES = sorted(entry.name for entry in CATALOGUE)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%accel ", [command.name for command in COMMANDS]),
        ("%%accel ", ["profile", "ddp", "sweep", "topology"]),
        ("%accel tr", ["try"]),
        ("%accel nothing ", []),
        ("%accel try ", NAMES),
        ("%accel try chan", ["channels_last"]),
        ("%accel try channels_last+", NAMES),
        ("%accel try channels_last+auto", ["autocast", "autocast_off"]),
        ("%accel try channels_last auto", ["autocast", "autocast_off"]),
        ("%accel keep fus", ["fused_optimizer"]),
        ("%accel undo com", ["compile_model", "compile_optimizer"]),
        ("%accel try --b", ["--background", "--budget-s", "--better"]),
        ("%accel try --background --b", ["--budget-s", "--better"]),
        ("%accel try --start ", ["new", "same"]),
        ("%accel sweep --batch ", ["per-rank", "global"]),
        ("%accel sweep --backends ", ["gloo", "nccl", "ccl"]),
        ("%accel sweep --ba", ["--backends", "--batch"]),
        ("%accel sweep --held-out m", ["model"]),
        ("%%accel ddp --compress p", ["powersgd:"]),
        (
            "%accel export --to ",
            ["cell", "shell", "dockerfile", "apptainer", "script", "torchrun", "mpirun", "slurm"],
        ),
        ("%accel help mach", ["machine"]),
        ("%accel try channels_last -o ", ["model", "result"]),
        ("%accel try autocast(d", ["dtype="]),
        ('%accel try channels_last+autocast(dtype="b', ['"bf16"']),
        ("%accel try loader_workers(n=2, ", ["prefetch_factor=", "persistent=", "on="]),
        ("%accel try loader_workers(persistent=", ["True", "False"]),
        ("%accel try unknown(", []),
        ("    %accel tr", ["try"]),
    ],
)
def test_tab_offers(line: str, expected: list[str]) -> None:
    assert complete(line, namespace={"model": 1, "result": 2, "_hidden": 3}) == expected


def test_tab_offers_the_backends_that_can_be_used() -> None:
    usable = [f'"{row.name}"' for row in compile_backends().rows if row.is_usable]
    for entry in ("compile_model", "compile_optimizer"):
        assert complete(f"%accel try {entry}(backend=") == usable
    assert complete('%accel try compile_model(backend="ao') == ['"aot_eager"']


def test_loaders_are_offered_where_loaders_are_asked_for() -> None:
    names = {"model": torch.nn.Linear(1, 1), "train_loader": DataLoader([1, 2])}
    assert complete("%%accel ddp --loaders ", namespace=names) == ["train_loader"]


def test_only_what_stands_before_the_cursor_counts() -> None:
    assert complete("%accel tr channels_last", len("%accel tr")) == ["try"]


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("%accel tr", "tr"),
        ("%accel try a+ch", "ch"),
        ('%accel try autocast(dtype="b', '"b'),
        ("%accel try --ti", "--ti"),
        ("%accel ", ""),
    ],
)
def test_a_completion_replaces_the_piece_that_is_being_typed(line: str, typed: str) -> None:
    assert fragment(line) == typed


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_offered_knob_and_value_makes_a_plan(entry) -> None:
    for knob in knobs_of(entry):
        assert f"{knob.name}=" in complete(f"%accel try {entry.name}(")
        for value in complete(f"%accel try {entry.name}({knob.name}="):
            assert Plan.parse(f"{entry.name}({knob.name}={value})")


@given(st.text(max_size=40))
def test_any_line_is_completed_with_words_that_begin_with_the_fragment(rest: str) -> None:
    line = f"%accel {rest}"
    assert all(word.startswith(fragment(line)) for word in complete(line))
