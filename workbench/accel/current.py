"""Which Workbench `accel.profile()`, `accel.try_()` … talk to: the notebook's, else one for `__main__`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.workbench import Workbench

_namespace: dict[str, Any] | None = None
_workbench: Workbench | None = None


def current_workbench() -> Workbench:
    """The Workbench of this process, made when first asked for: loading the extension stays cheap.

    Its namespace is the notebook's while the extension is loaded, otherwise that of the script that runs.
    """
    global _workbench
    if _workbench is None:
        from accel.workbench import Workbench

        _workbench = Workbench(vars(sys.modules["__main__"]) if _namespace is None else _namespace)
    return _workbench


def existing_workbench() -> Workbench | None:
    """The Workbench if there is one already."""
    return _workbench


def work_in(namespace: dict[str, Any] | None) -> None:
    """Give back what the present Workbench holds and use this namespace from now on; None means the script's."""
    global _namespace, _workbench
    leaving, _workbench, _namespace = _workbench, None, namespace
    if leaving is not None:
        leaving.close()
