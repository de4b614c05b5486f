"""Tab in a shell: only accel's words on accel's lines, IPython's own on all others."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter


def offered(shell, text: str) -> list[str]:
    with provisionalcompleter():
        return [found.text for found in shell.Completer.completions(text, len(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%accel ex", ["export"]),
        ("%%accel pro", ["profile"]),
        ("x = 1\n%accel try channels_last+fus", ["fused_optimizer"]),
        ("%accel try autocast(dt", ["dtype="]),
        ("%accel try --ti", ["--timeout-s"]),
    ],
)
def test_accels_words_alone_are_offered(shell, text: str, expected: list[str]) -> None:
    assert offered(shell, text) == expected


def test_other_lines_are_left_to_ipython(shell) -> None:
    assert "optimizer" in offered(shell, "optimi")
    assert "model.parameters" in " ".join(offered(shell, "model.para")) or "parameters" in offered(
        shell, "model.para"
    )


def test_the_completed_piece_is_what_is_replaced(shell) -> None:
    text = "%accel try channels_last+fus"
    with provisionalcompleter():
        found = next(iter(shell.Completer.completions(text, len(text))))
    assert text[: found.start] + found.text == "%accel try channels_last+fused_optimizer"


def test_after_unloading_nothing_is_offered(shell) -> None:
    shell.run("%unload_ext accel")
    assert offered(shell, "%accel ex") == []
