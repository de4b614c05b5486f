"""Clicks that touch the user's objects run in the notebook's main thread, so that they never meet a cell halfway.

A widget's callback runs in the main thread after the running cell, or in a thread of its own while the cell runs:
that depends on the version of ipykernel.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import Widget


def in_main_thread(action: Callable[[], object]) -> bool:
    """Run `action` now if this is the main thread, else when the running cell is over; says whether it ran already.

    >>> in_main_thread(lambda: workbench.keep("channels_last"))
    True
    """
    kernel = _kernel()
    if kernel is None or threading.current_thread() is threading.main_thread():
        action()
        return True
    kernel.io_loop.add_callback(action)
    return False


def _kernel() -> Any:
    """The kernel of this notebook; None in a script, a terminal or a test."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None)


def call_when_idle(action: Callable[[], object], *, after_s: float = 0.0) -> None:
    """Run `action` when the kernel's main thread is free to hear messages, `after_s` from now; without a kernel, now.

    >>> call_when_idle(lambda: print("no cell is running"))
    """
    kernel = _kernel()
    if kernel is None:
        action()
    elif after_s:
        kernel.io_loop.add_callback(kernel.io_loop.call_later, after_s, action)  # any thread may ask
    else:
        kernel.io_loop.add_callback(action)


def hear_while_busy(widget: Widget) -> None:
    """Let what the page says arrive while a cell runs, in a thread of its own; after each drawing.

    JupyterLab sends a widget's messages to such a thread, where the kernel has one (ipykernel 7: a subshell). From 7.4 on the
    kernel passes them instead to where the widget was drawn last, which is the main thread, unless it has forgotten that.
    Elsewhere it changes nothing: messages wait for the end of the cell.

    >>> hear_while_busy(panel)
    """
    if (comm := widget.comm) is not None:
        vars(comm).pop("_reply_subshell_id", None)
