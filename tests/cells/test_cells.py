"""Each cell of the corpus goes through every command, and each answer is the truth, or a true reason why it cannot be."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.cells.cell import Cell
from tests.cells.corpus import CELLS
from tests.cells.notebook import CellNotebook, a_notebook


@pytest.fixture(scope="module")
def notebook() -> Iterator[CellNotebook]:
    with a_notebook() as each:
        yield each


def _parameters() -> list[object]:
    marks = {True: [pytest.mark.whole], False: []}
    return [pytest.param(cell, id=name, marks=marks[bool(cell.needs)]) for name, cell in CELLS.items()]


@pytest.mark.parametrize("cell", _parameters())
def test_profile_try_undo_keep_export_and_ranks_tell_the_truth(notebook: CellNotebook, cell: Cell) -> None:
    if cell.needs and importlib.util.find_spec(cell.needs) is None:
        pytest.skip(f"{cell.needs} is not installed: pip install accel-workbench[frameworks]")
    found = notebook.outcomes(cell)
    wrong = {command: answer for command, answer in found.items() if answer.startswith("WRONG")}
    unknown = {command: answer for command, answer in wrong.items() if command not in cell.awaits}
    assert not unknown, notebook.told
    if wrong:
        pytest.xfail(f"known: {wrong}")


@pytest.mark.whole
def test_whole_trials_of_all_cells() -> None:
    with a_notebook(whole_trials=True) as notebook:
        for cell in CELLS.values():
            if not cell.needs:
                found = notebook.outcomes(cell)["try"]
                assert not found.startswith("WRONG") or "try" in cell.awaits, (cell.name, found)


def test_the_corpus_has_forty_styles_and_says_why_it_refuses() -> None:
    assert len(CELLS) >= 40
    assert all(reason for cell in CELLS.values() for reason in cell.refused.values())
