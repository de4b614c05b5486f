"""Lines go before the first use of what exists, and after the line that builds what does not."""

from __future__ import annotations

import libcst as cst
import pytest
import torch

from accel.exporting.cell_tree import CellTree
from accel.exporting.placement import after_building, after_header, after_loading, before_first_use


def shown(tree: CellTree, place: cst.CSTNode | None) -> str:
    return "" if place is None else tree.module.code_for_node(place).strip().partition("\n")[0]


@pytest.mark.parametrize(
    ("cell", "places"),
    [
        ("model = CNN()", ["model = CNN()"]),
        ("model = CNN()\nmodel = model.to(device)\nmodel(x)", ["model = model.to(device)"]),
        ("model = CNN()\no = Adam(model.parameters())\nmodel = model.to(d)", ["model = CNN()"]),
        ("model = CNN()\no = Adam(model.parameters())\nmodel = Wrap(model)", ["model = Wrap(model)"]),
        ("model = CNN()\nmodel(x)\nmodel = model.eval()", ["model = CNN()"]),
        ("for lr in lrs:\n    model = CNN()\n    train(model)", ["model = CNN()"]),
        ("model = A()\ntrain(model)\nmodel = B()\ntrain(model)", ["model = A()", "model = B()"]),
        ("model, optimizer = build()", ["model, optimizer = build()"]),
        ("model: Net = CNN()", ["model: Net = CNN()"]),
        ("def main():\n    model = CNN()\n    model(x)\nmain()", ["model = CNN()"]),
        ("def a():\n    model = A()\ndef b():\n    model = B()", []),
        ("train(model)", []),
        ("for model in models: train(model)", []),
    ],
)
def test_after_the_line_that_finishes_building(cell: str, places: list[str]) -> None:
    tree = CellTree.parse(cell)
    assert [shown(tree, place) for place in after_building(tree, "model")] == places


def test_loading_a_state_is_found() -> None:
    tree = CellTree.parse(
        "o = Adam(p)\nif resume:\n    o.load_state_dict(torch.load(path))\nother.load_state_dict(x)"
    )
    assert [shown(tree, place) for place in after_loading(tree, "o")] == [
        "o.load_state_dict(torch.load(path))"
    ]


@pytest.mark.parametrize(
    ("cell", "first"),
    [
        ('"""Text."""\nimport torch\nx = 1', "x = 1"),
        ("%matplotlib inline\n!ls\ndef f(): pass\nf()", "f()"),
        ("%time train()\nx = 1", "__magic_line_0__"),
        ("%%time\nimport torch\ntrain()", "train()"),
        ("import torch\ndef f(): pass", ""),
    ],
)
def test_the_header_is_imports_texts_magics_and_definitions(cell: str, first: str) -> None:
    tree = CellTree.parse(cell)
    assert shown(tree, after_header(tree)) == first


MODEL = torch.nn.Linear(2, 2)


class Trainer:
    def __init__(self) -> None:
        self.parts = {"net": [MODEL]}

    def fit(self) -> None: ...


trainer = Trainer()
wrapped = torch.nn.Sequential(torch.nn.Sequential(MODEL))


def reads_model() -> object:
    return MODEL


def calls_a_reader() -> object:
    return reads_model()


@pytest.mark.parametrize(
    ("cell", "first"),
    [
        ("n = 3\nprint(n)\ntrain(MODEL)", "train(MODEL)"),
        ("n = 3\ntrainer.fit()\ntrain(MODEL)", "trainer.fit()"),
        ("n = 3\ncalls_a_reader()\ntrain(MODEL)", "calls_a_reader()"),
        ("n = 3; fit = trainer.fit; fit()", "fit = trainer.fit;"),
        ("import torch\n# why\n%time train(MODEL)\nn = 3", "__magic_line_0__"),
        ("%%time MODEL\nn = 3\ntrain(MODEL)", "train(MODEL)"),
        ("def f():\n    MODEL(x)\nn = 3\nfor _ in range(n):\n    f(MODEL)", "for _ in range(n):"),
        ("wrapped(x)", "wrapped(x)"),
    ],
)
def test_before_the_first_statement_that_can_reach_the_object(cell: str, first: str) -> None:
    tree = CellTree.parse(cell)
    assert shown(tree, before_first_use(tree, {"MODEL"}, [MODEL], globals())) == first
