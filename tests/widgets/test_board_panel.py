"""The board in a page, answered by its Python side: the focus stays in it, and a finding's button says at once that it begins."""

from __future__ import annotations

import pytest

from accel.accelerations import CATALOGUE
from accel.errors import Reason
from accel_widgets.board_panel import BoardPanel

pytestmark = pytest.mark.browser

HERE = "() => [document.activeElement.closest('.accel-board') !== null, document.activeElement.dataset.name ?? '']"


@pytest.fixture
def board():
    """One acceleration that cannot work as it stands."""

    panel = BoardPanel(
        [entry for entry in CATALOGUE if entry.name in ("autocast", "channels_last")],
        why_not=lambda entry: [Reason("There is no GPU", "Use one.")] if entry.name == "autocast" else [],
        on_try=print, on_make=print, on_change=lambda: None,
    )  # fmt: skip
    panel.ask(kept=(), findings=())
    yield panel
    panel.close()


def test_an_entry_that_raises_says_so_and_the_others_are_drawn(board):
    def raises(entry):
        raise RuntimeError("no storage")

    board._why_not = lambda entry: raises(entry) if entry.name == "autocast" else []
    board.ask(kept=(), findings=())
    assert board.is_asked
    assert [entry["name"] for entry in board.entries] == ["channels_last"]
    assert "raised RuntimeError: no storage" in str(board.refused)


def answer(view, panel, order):
    """What Python makes of the switches, part by part."""
    panel.chosen = view.saved[-1]["chosen"]
    view.set(**{name: getattr(panel, name) for name in order})


@pytest.mark.parametrize("order", [("entries", "refused"), ("refused", "entries")])
def test_the_focus_follows_a_name_from_the_refused_to_its_switch_and_back(show, page, board, order):
    view = show(BoardPanel, **board.get_state())
    page.get_by_test_id("refused").locator("summary").press("Enter")
    page.get_by_role("button", name="autocast").press("Enter")
    answer(view, board, order)
    assert page.evaluate(HERE) == [True, "autocast"]
    assert page.get_by_role("switch", name="autocast").is_checked()
    page.keyboard.press("Space")
    answer(view, board, order)
    assert page.evaluate(HERE) == [True, "autocast"]
    view.set(refused=[], entries=[])
    assert page.evaluate(HERE) == [True, ""]
