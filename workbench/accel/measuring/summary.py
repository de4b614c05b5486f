"""The answer of a trial in one sentence: what to do, by how much it gains, and whether the loss follows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accel.measuring.comparison import Comparison
from accel.measuring.verdict import TOLERANCE
from accel.units import counted

UNDER_WAY = ("waiting", "measuring", "confirming")
_AS_IT_IS = "keep your cell as it is"
SOON = 100  # steps: where a plan is ahead before, its compiling needs no word
_COMPARE = "compare the quality reached (--until) before you keep it"


def speed(row: Comparison) -> float:
    """The speed-up that a row is sorted and drawn by: what its interval carries."""
    return row.shown.carried if row.shown else math.nan


def may_be_recommended(row: Comparison) -> bool:
    """Whether a row that is faster is one to keep: all of it took effect, and training stays as it is, as far as seen."""
    return row.leaves_training and not row.without_effect


def summary_of(rows: Sequence[Comparison], best: Comparison | None, *, advice: str = "") -> str:
    """The sentence; empty while a row is still measured. `advice` is what would decide what is open.

    >>> summary_of(ladder.rows, ladder.best)
    'Keep channels_last: 1.2 to 1.4× faster, loss follows.'
    """
    if any(row.state in UNDER_WAY for row in rows):
        return ""
    if best is not None:
        return keep_sentence(best)
    measured = [row for row in rows if row.shown is not None]
    if faster := [row for row in measured if row.verdict == "faster"]:
        return _not_to_keep(max(faster, key=speed))
    open_ones = [row for row in measured if row.verdict == "undecided" and may_be_recommended(row)]
    hopeful = [row for row in open_ones if row.shown is not None and row.shown.high > 1 + TOLERANCE]
    if hopeful:
        row = max(hopeful, key=speed)
        return f"{row.title} may be faster, but it is undecided: {row.gain}. {advice}".rstrip()
    return _none(rows, measured)


def keep_sentence(best: Comparison, *, about: str = "") -> str:
    """What to keep, with what it gains; `about` is what speaks for it besides, and else its loss does.

    >>> keep_sentence(ladder.best)
    'Keep channels_last: 1.2 to 1.4× faster, loss follows.'
    """
    steps = best.break_even_steps or 0
    later = f" from step {steps:,} on" if steps > SOON else ""
    gains = f"{best.gain}{later}, {about or best.quality.words}."
    return (
        f"{best.title} is {gains} {best.how_to_keep}" if best.how_to_keep else f"Keep {best.title}: {gains}"
    )


def _not_to_keep(row: Comparison) -> str:
    """Why the fastest is none to recommend."""
    if row.without_effect:
        return f"{row.title} measured {row.gain}, but {' and '.join(row.without_effect)} did not take effect: {_AS_IT_IS}."
    drifts = row.quality.following == "drifts"
    return f"{row.title} is {row.gain}, but {'its loss drifts' if drifts else 'it changes the training'}: {_COMPARE}."


def _none(rows: Sequence[Comparison], measured: Sequence[Comparison]) -> str:
    if not measured:
        return _nothing(rows)
    proven = "" if all(row.verdict != "undecided" for row in measured) else "proven "
    failed = f" ({len(rows) - len(measured)} could not be measured)" if len(measured) < len(rows) else ""
    if len(rows) > 1:
        return f"None of {counted(len(rows), 'plan')} is {proven}faster{failed}: {_AS_IT_IS}."
    (row,) = rows
    says = {"slower": "is slower", "no difference": "makes no difference"}
    return f"{row.title} {says.get(row.verdict, 'is not proven faster')}: {_AS_IT_IS}."


def _nothing(rows: Sequence[Comparison]) -> str:
    if not rows:
        return ""
    if any(row.state == "stopped" for row in rows):
        return "Stopped before anything was decided."
    if len(rows) == 1:
        (row,) = rows
        why = {"failed": "it failed", "not applicable": "it cannot work here"}
        return f"{row.title} was not measured: {why.get(row.state, 'there was no time for it')}."
    return f"None of {counted(len(rows), 'plan')} could be measured."
