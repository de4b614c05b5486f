"""The toggle board: one switch an acceleration, grouped by layer; what is on together is one plan to try."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import ipywidgets

from accel.errors import AccelError
from accel.html_parts import text as escaped
from accel.plans.plan import Plan
from accel_widgets.error_line import ErrorLine
from accel_widgets.shared_looks import looks, shared
from accel_widgets.toggle_row import ToggleRow, WhyNot

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration

NOTHING_ON = (
    "Switch on one or more accelerations to try them together, or press Tune to search among all of them."
)


class ToggleBoard(ipywidgets.VBox):
    """Switches, their knobs, and the buttons Try, Try each and Tune; `plan` is what is switched on.

    >>> why_not = lambda entry: entry.why_not(workload, machine)
    >>> board = ToggleBoard(on_try=print, on_tune=print, on_make=print, why_not=why_not, errors=ErrorLine())
    >>> board.show(CATALOGUE, workbench.kept.names)
    >>> board.rows["channels_last"].switch.value = True
    >>> str(board.plan)
    'channels_last'
    """

    def __init__(
        self, *, on_try: Callable[..., object], on_tune: Callable[[], object], why_not: WhyNot,
        on_make: Callable[[str], object], errors: ErrorLine,
    ) -> None:  # fmt: skip
        self.rows: dict[str, ToggleRow] = {}
        self._why_not, self._on_make, self._busy = why_not, on_make, ""
        self._list, self._refused = shared(ipywidgets.VBox), ipywidgets.VBox(layout={"display": "none"})
        self.fold = _button("", "accel-fold", "Accelerations that cannot work on this training, and why")
        self.fold.on_click(lambda _button: self._turn_fold(is_open=not self.is_unfolded))
        self._plan_line = shared(ipywidgets.HTML, classes="accel-plan-line")
        self.try_button = _button(
            "Try", "accel-try accel-primary", "Measure what is switched on, together, against the baseline"
        )
        self.try_each_button = _button(
            "Try each", "accel-try-each", "Measure each one alone, and all of them together"
        )
        self.tune_button = _button(
            "Tune", "accel-tune", "Search for the fastest plan of all accelerations, for up to two minutes"
        )
        self.try_button.on_click(errors.guard(lambda _button: on_try(str(self.plan)), clears=False))
        self.try_each_button.on_click(errors.guard(lambda _button: on_try(*self.plans_of_each), clears=False))
        self.tune_button.on_click(lambda _button: on_tune())
        buttons = [self.try_button, self.try_each_button, self.tune_button, self._plan_line]
        bar = shared(ipywidgets.HBox, buttons, classes="accel-board-bar")
        parts = [_heading("Accelerations"), self._list, self.fold, self._refused, bar]
        super().__init__(parts, **looks(ipywidgets.VBox, "accel accel-board"))

    @property
    def plan(self) -> Plan:
        """What is switched on, as one plan; raises AccelError when parts exclude each other."""
        chosen = (row.chosen for row in self.rows.values())
        return Plan(tuple(entry for entry in chosen if entry is not None))

    @property
    def plans_of_each(self) -> tuple[str, ...]:
        """Each one alone, then, if there are several, all together."""
        plan = self.plan
        alone = [str(Plan((entry,))) for entry in plan.entries]
        return (*alone, str(plan)) if len(alone) > 1 else tuple(alone)

    def show(self, entries: Sequence[type[Acceleration]], kept: Collection[str]) -> None:
        """Show which of them can work here, the rest folded away; switches that are on stay on."""
        for entry in entries:
            if entry.name not in self.rows:
                self.rows[entry.name] = ToggleRow(
                    entry, on_change=self.refresh, why_not=self._why_not, on_make=self._on_make
                )
            self.rows[entry.name].show(is_kept=entry.name in kept)
        rows = list(self.rows.values())
        for box, is_refused in ((self._list, False), (self._refused, True)):
            shown = _by_layer([row for row in rows if row.is_refused == is_refused])
            if shown != list(box.children):
                box.children = shown
        self._turn_fold(is_open=self.is_unfolded)
        self.refresh()

    @property
    def is_unfolded(self) -> bool:
        """Whether what cannot work here is shown too."""
        return self._refused.layout.display is None

    def _turn_fold(self, *, is_open: bool) -> None:
        """Rows change places only in `show`: one that the user is turning the knobs of stays where it is."""
        count = len(self._refused.children)
        self.fold.description = f"{'▾ Hide' if is_open else '▸ Show'} why {count} cannot work here"
        self.fold.layout.display = None if count else "none"
        self._refused.layout.display = None if is_open else "none"

    def set_busy(self, why: str) -> None:
        """While something runs nothing else can be tried: what it is, and how it ends; empty where nothing does."""
        self._busy = why
        self.refresh()

    def refresh(self) -> None:
        """Say which plan Try would measure, or why there is none; Tune asks for no switch."""
        self.tune_button.disabled = bool(self._busy)
        try:
            plan = self.plan
        except AccelError as error:
            self._say(f'<span role="alert">✗ {escaped(error)}</span>', can_try=False, can_try_each=False)
            return
        if self._busy:
            self._say(escaped(self._busy), can_try=False, can_try_each=False)
        elif not plan:
            self._say(NOTHING_ON, can_try=False, can_try_each=False)
        else:
            text = f"Plan: <code>{escaped(plan)}</code>"
            self._say(text, can_try=True, can_try_each=len(plan.entries) > 1)

    def _say(self, html: str, *, can_try: bool, can_try_each: bool) -> None:
        self._plan_line.value = html
        self.try_button.disabled = not can_try
        self.try_each_button.disabled = not can_try_each


def _by_layer(rows: Sequence[ToggleRow]) -> list[ToggleRow]:
    """The rows of a layer together, the first one naming it; layers as the catalogue first names them."""
    layers = list(dict.fromkeys(row.entry.layer for row in rows))
    ordered = sorted(rows, key=lambda row: layers.index(row.entry.layer))
    for before, row in zip([None, *ordered], ordered, strict=False):
        is_first = before is None or before.entry.layer != row.entry.layer
        row.layer.value = escaped(row.entry.layer) if is_first else ""
    return ordered


def _heading(text: str) -> ipywidgets.HTML:
    return shared(ipywidgets.HTML, f'<h3 class="accel-heading">{escaped(text)}</h3>')


def _button(text: str, classes: str, tooltip: str) -> ipywidgets.Button:
    own = ipywidgets.Layout()  # one that is folded away changes it
    return shared(
        ipywidgets.Button, description=text, tooltip=tooltip, layout=own, classes=f"accel-button {classes}"
    )
