"""The board: findings as cards, a switch for each acceleration; what is on together is one plan to try."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel.errors import AccelError, Reason, words_of
from accel.plans.knobs import knobs_of
from accel.plans.plan import Plan
from accel_widgets.board_entries import entries_shown, findings_shown, is_refused, refused_shown
from accel_widgets.knob_values import knob_value
from accel_widgets.main_thread import in_main_thread
from accel_widgets.theme import scripts, themed

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration
    from accel.profiling.findings import Finding

WhyNot = Callable[["Acceleration"], Sequence["Reason"]]


class BoardPanel(anywidget.AnyWidget):
    """Draws findings and switches; `plan` is what is switched on, with its knobs as they are turned.

    >>> board = BoardPanel(CATALOGUE, why_not=workbench.why_not, on_try=print, on_make=print, on_change=print)
    >>> board.ask(kept=workbench.kept.names, findings=profile.findings)
    >>> board.chosen = {"channels_last": {}}
    >>> str(board.plan)
    'channels_last'

    `chosen` is the page's too: a name for each switch that is on, and in it the knobs that were turned, as texts.
    """

    _esm = scripts("elements.js", "board_panel.js")
    _css = themed("board_panel.css")

    findings = traitlets.List(traitlets.Dict()).tag(sync=True)
    entries = traitlets.List(traitlets.Dict()).tag(sync=True)
    refused = traitlets.List(traitlets.Dict()).tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    is_busy = traitlets.Bool().tag(sync=True)
    is_asked = traitlets.Bool().tag(sync=True)  # what can work here is known

    def __init__(
        self, catalogue: Sequence[type[Acceleration]], *, why_not: WhyNot, on_try: Callable[..., object],
        on_make: Callable[[str], object], on_change: Callable[[], object],
    ) -> None:  # fmt: skip
        super().__init__()
        self._catalogue = {entry.name: entry for entry in catalogue}
        self._why_not, self._on_try, self._on_make, self._on_change = why_not, on_try, on_make, on_change
        self._reasons: dict[str, Sequence[Reason]] = {}
        self._kept: Collection[str] = ()
        self._advised: tuple[str, ...] = ()
        self.observe(self._turned, names="chosen")
        self.on_msg(self._answer)

    @property
    def plan(self) -> Plan:
        """What is switched on, as one plan; raises AccelError where a knob is out of range, or parts cannot be together."""
        on = [name for name in self._catalogue if name in self.chosen]
        for name in on:
            if reasons := self._reasons.get(name):
                raise AccelError(name, because=reasons[0].because, do=reasons[0].do)
        return Plan(tuple(self.as_turned(name) for name in on))

    @property
    def plans_of_each(self) -> tuple[str, ...]:
        """Each one alone, then, if there are several, all together."""
        plan = self.plan
        alone = [str(Plan((entry,))) for entry in plan.entries]
        return (*alone, str(plan)) if len(alone) > 1 else tuple(alone)

    def as_turned(self, name: str) -> Acceleration:
        """An acceleration with its knobs as they are turned; raises AccelError when one is out of range."""
        entry, typed = self._catalogue[name], self.chosen.get(name, {})
        knobs = {knob.name: knob for knob in knobs_of(entry)}
        return entry(
            **{known: knob_value(knobs[known], str(typed[known])) for known in knobs if known in typed}
        )

    def ask(self, *, kept: Collection[str], findings: Sequence[Finding]) -> None:
        """Ask of every entry whether it can work here, and draw; reasons read the user's objects: only in the main thread."""
        for _ in self.asking(kept=kept, findings=findings):
            pass

    def asking(self, *, kept: Collection[str], findings: Sequence[Finding]) -> Iterator[None]:
        """The same, an entry at a time: one may take a second, for which other work of the notebook need not wait."""
        self._kept = kept
        suggested = [Plan.parse(plan) for finding in findings for plan in finding.suggests]
        self._advised = tuple(dict.fromkeys(name for plan in suggested for name in plan.names))
        for name in self._catalogue:
            self._ask(name)
            yield
        with self.hold_sync():
            self.findings, self.is_asked = findings_shown(findings), True
            untouched = [name for name, typed in self.chosen.items() if not typed]
            gone = {name for name in untouched if is_refused(self._reasons, name)}
            self.chosen = {name: typed for name, typed in self.chosen.items() if name not in gone}
            self._draw()
        self._on_change()

    def show_findings(self, findings: Sequence[Finding]) -> None:
        """Before what can work here is known; from any thread."""
        self.findings = findings_shown(findings)

    def _ask(self, name: str) -> None:
        try:
            self._reasons[name] = tuple(self._why_not(self.as_turned(name)))
        except AccelError:
            self._reasons[name] = ()  # a knob is out of range: that is said where the plan stands
        except Exception as error:  # of the user's objects, or our own: the others are to be drawn
            raised = f"asking whether it can work raised {type(error).__name__}: {words_of(error)}"
            self._reasons[name] = (Reason(raised, "Leave it off; the others do not need it."),)

    def _draw(self) -> None:
        entries, chosen = list(self._catalogue.values()), tuple(self.chosen)
        with self.hold_sync():
            self.entries = entries_shown(
                entries, self._reasons, kept=self._kept, advised=self._advised, chosen=chosen
            )
            self.refused = refused_shown(entries, self._reasons, chosen=chosen)

    def _turned(self, change: dict[str, Any]) -> None:
        """Another value may work where this one does not, and the other way round; during a cell that is asked at its end."""
        before, now = change["old"] or {}, change["new"]
        turned = [name for name in self._catalogue if before.get(name) != now.get(name)]

        def asked() -> None:
            for name in turned:
                self._ask(name)
            self._draw()
            self._on_change()

        self._on_change()
        in_main_thread(asked)

    def _answer(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        """A click in the page: what it asked for."""
        if message.get("do") == "try":
            self._on_try(*map(str, message["plans"]))
        elif message.get("do") == "make":
            self._on_make(str(message["environment"]))
        else:
            raise ValueError(f"the board sent an unknown message: {message!r}")
