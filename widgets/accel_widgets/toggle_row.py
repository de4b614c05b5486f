"""One acceleration of the toggle board: its switch, its knobs, what it does to training, or why it cannot work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import ipywidgets

from accel.environments.environment import environments
from accel.environments.recipes import recipe
from accel.errors import AccelError, Reason
from accel.html_parts import text as escaped
from accel.plans.knobs import knobs_of
from accel_widgets.knob_control import KnobControl
from accel_widgets.main_thread import in_main_thread
from accel_widgets.shared_looks import looks, shared

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration

WhyNot = Callable[["Acceleration"], Sequence["Reason"]]
EFFECT_WORDS = {"exact": "exact", "close": "numerically close", "changes training": "changes the training"}


class ToggleRow(ipywidgets.HBox):
    """A row of the board; `chosen` is the acceleration with its knobs as they are turned, or None while it is off.

    Where an environment is missing it has a button that makes one.

    >>> row = ToggleRow(by_name("autocast"), on_change=print, why_not=workbench.why_not, on_make=print)
    >>> row.show(is_kept=False)
    >>> row.switch.value = True
    >>> row.chosen
    Autocast(dtype='bf16')
    """

    def __init__(
        self,
        entry: type[Acceleration],
        *,
        on_change: Callable[[], object],
        why_not: WhyNot,
        on_make: Callable[[str], object],
    ) -> None:
        self.entry, self._on_change, self._why_not, self._is_kept = entry, on_change, why_not, False
        self._on_make, self._missing = on_make, ""
        self.make_button: ipywidgets.Button | None = None
        self.switch = shared(
            ipywidgets.Checkbox, description=entry.name, indent=False,
            classes=f"accel-switch accel-toggle-{entry.name}",
        )  # fmt: skip
        self.knobs = [KnobControl(knob, label=entry.name) for knob in knobs_of(entry)]
        self.layer = shared(ipywidgets.HTML, classes="accel-layer")
        self.text = shared(ipywidgets.HTML, classes="accel-toggle-text")
        knobs = shared(ipywidgets.HBox, [knob.box for knob in self.knobs], classes="accel-knobs")
        super().__init__(
            [self.layer, self.switch, knobs, self.text], **looks(ipywidgets.HBox, "accel-toggle-row")
        )
        self.switch.observe(lambda _change: on_change(), names="value")
        for knob in self.knobs:
            knob.on_turn(self._turned)

    @property
    def as_turned(self) -> Acceleration:
        """The acceleration with its knobs as they are turned; raises AccelError when one is out of range."""
        return self.entry(**{control.knob.name: control.value for control in self.knobs})

    @property
    def is_refused(self) -> bool:
        """Whether it cannot work here as its knobs are turned, and an environment would not change that."""
        return bool(self.switch.disabled) and not self._missing

    @property
    def chosen(self) -> Acceleration | None:
        """The acceleration if it is switched on."""
        return self.as_turned if self.switch.value else None

    def show(self, *, is_kept: bool) -> None:
        """Say what it does, or why it cannot work here as its knobs are turned; then it is off and cannot be switched.

        Reasons read the user's objects: only in the main thread, which uses them.
        """
        self._is_kept = is_kept
        try:
            reasons = self._why_not(self.as_turned)
        except AccelError:
            reasons = ()  # a knob is out of range: the board says so where the plan stands
        if reasons:
            self.switch.value = False
        self.switch.disabled = bool(reasons)
        is_all = bool(reasons) and all(reason.environment for reason in reasons)
        self._offer(reasons[0] if is_all else None)
        live = '<b class="accel-is-live">● live in this notebook</b> ' if is_kept else ""
        effect = f"<span class='accel-effect'>{escaped(EFFECT_WORDS[self.entry.effect])}</span>"
        what = f"{escaped(card_summary(self.entry))} {effect}"
        shown = [] if is_all else reasons  # the button says the rest
        why = "".join(f"<div class='accel-why-not'>Not here: {escaped(reason)}</div>" for reason in shown)
        self.text.value = f"<div>{live}{what}</div>{why}"

    def _offer(self, lacks: Reason | None) -> None:
        """A button that makes the environment which is missing; most rows never have one."""
        self._missing = lacks.environment if lacks else ""
        if lacks and self.make_button is None:
            self.make_button = shared(
                ipywidgets.Button, layout=ipywidgets.Layout(), classes="accel-button accel-make-environment"
            )
            self.make_button.on_click(lambda _button: self._on_make(self._missing))
            self.children = [*self.children, self.make_button]
        if self.make_button is not None:
            self.make_button.layout.display = None if lacks else "none"
        if lacks and self.make_button is not None:
            needs = recipe(lacks.environment).needs(environments())
            self.make_button.description = f"Make {lacks.environment} ({needs})"
            self.make_button.tooltip = f"{lacks.because}; this makes one"

    def _turned(self) -> None:
        """Another value may work where this one does not, and the other way round; during a cell that is asked at its end."""
        in_main_thread(lambda: self.show(is_kept=self._is_kept))
        self._on_change()


def card_summary(entry: type[Acceleration]) -> str:
    """The first sentence of the method card."""
    return (entry.__doc__ or "").strip().partition("\n")[0].replace("`", "")
