"""How much accel shows and says in this process.

Examples:
    >>> accel.options.toast_after_s = 20
    >>> print(accel.options)
    progress = True     a line that moves while something takes longer than a second
    ...

Read one as `accel.options.progress`, each time anew: a name that is imported from here does not follow.
"""

from __future__ import annotations

import math
import sys
from types import ModuleType

from accel.errors import AccelError, UnknownName
from accel.units import table

progress: bool = True
full: bool = False
toast_after_s: float = 20.0
status_line: bool = True

MEANINGS = {
    "progress": "a line that moves while something takes longer than a second",
    "full": "reports and answers in full length from the beginning, without --full",
    "toast_after_s": "in JupyterLab and Notebook 7, a notice at the end of what took longer, in seconds; math.inf: never",
    "status_line": "one line that greets after %load_ext accel",
}


class Options(ModuleType):
    """A module of options; setting one checks its name and its value.

    >>> sys.modules[__name__].__class__ = Options
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            _check(name, value)
        super().__setattr__(name, value)

    def __str__(self) -> str:
        return "\n".join(table([(f"{name} = {getattr(self, name)}", MEANINGS[name]) for name in MEANINGS]))

    __repr__ = __str__


def _check(name: str, value: object) -> None:
    if name not in MEANINGS:
        raise UnknownName("option", name, MEANINGS)
    asked, is_switch = f"accel.options.{name} = {value!r}", isinstance(value, bool)
    if isinstance(globals()[name], bool):
        if not is_switch:
            raise AccelError(asked, because="this option is a switch", do="Set it to True or to False.")
    elif is_switch or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
        raise AccelError(
            asked,
            because="this option is a number, 0 or above",
            do=f"Set it for example to {globals()[name]:g}.",
        )


sys.modules[__name__].__class__ = Options
