"""A control for one knob of an acceleration: a list for fixed choices, a box for yes or no, a field for numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets

from accel.errors import AccelError
from accel.plans.knobs import as_literal
from accel_widgets.shared_looks import shared

if TYPE_CHECKING:
    from accel.plans.knobs import Knob

CHOOSE_FOR_ME = "auto"


class KnobControl:
    """A knob and the widget that turns it; `value` is what the acceleration gets.

    >>> KnobControl(knobs_of(by_name("autocast"))[0]).value
    'bf16'
    """

    def __init__(self, knob: Knob, *, label: str) -> None:
        self.knob = knob
        self.field = _field(knob, tooltip=f"{label}: {knob.allowed}")
        self.caption = shared(ipywidgets.Label, knob.name)
        self.box = shared(ipywidgets.HBox, [self.caption, self.field], classes="accel-knob")

    @property
    def value(self) -> Any:
        """The chosen value; raises AccelError when the knob cannot be that."""
        given = self.field.value
        if isinstance(self.field, ipywidgets.Text):
            given = _read(given.strip(), self.knob)
        if not self.knob.accepts(given):
            raise AccelError(f"{self.knob.name}={given!r}", because=f"it is {self.knob.allowed}",
                             do=f"Leave the field empty for {as_literal(self.knob.default)}.")  # fmt: skip
        return given

    def on_turn(self, callback: Callable[[], object]) -> None:
        """Call back whenever the knob is turned."""
        self.field.observe(lambda _change: callback(), names="value")


def _field(knob: Knob, tooltip: str) -> Any:
    """The widget; a field that may be None is a text that may be empty."""
    classes = f"accel-knob-{knob.name} accel-knob-of-{knob.type.__name__}"
    words: list[tuple[str, Any]] = [(CHOOSE_FOR_ME, None)] if knob.may_be_none else []
    if knob.choices:
        words += [(str(choice), choice) for choice in knob.choices]
    elif knob.type is bool and knob.may_be_none:
        words += [("yes", True), ("no", False)]
    if len(words) > 1:
        values = [value for _, value in words]
        chosen = values.index(knob.default)  # value=None would be: none chosen
        return shared(ipywidgets.Dropdown, options=words, index=chosen, tooltip=tooltip, classes=classes)
    if knob.type is bool:
        return shared(ipywidgets.Checkbox, value=knob.default, indent=False, tooltip=tooltip, classes=classes)
    shown = "" if knob.default is None else str(knob.default)
    return shared(
        ipywidgets.Text, shown, placeholder=CHOOSE_FOR_ME if knob.may_be_none else shown, continuous_update=False,
        tooltip=tooltip, classes=classes,
    )  # fmt: skip


def _read(text: str, knob: Knob) -> Any:
    """A typed text as the knob's type; empty is the default, and what cannot be read stays text, to be refused."""
    if text in ("", CHOOSE_FOR_ME):
        return knob.default
    try:
        return knob.type(text)
    except ValueError:
        return text
