"""Errors of clicks, shown inside the panel: what a callback raises is otherwise seen by nobody."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

import ipywidgets

from accel.errors import AccelError
from accel.html_parts import text as escaped


class ErrorLine(ipywidgets.HTML):
    """Empty, or the last error with role="alert"; `guard` wraps a callback so that what it raises is shown here.

    >>> errors = ErrorLine()
    >>> button.on_click(errors.guard(lambda _: workbench.undo()))
    """

    def __init__(self) -> None:
        super().__init__(_dom_classes=("accel-error-line",))

    def show(self, error: BaseException) -> None:
        """Show an error; a worker's comes with the worker's traceback, one that is not ours with its own."""
        if isinstance(error, AccelError):
            self.show_text(str(error), details=getattr(error, "traceback_text", ""))
        else:
            frames = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            self.show_text(f"{type(error).__name__}: {error}", details=frames)

    def show_text(self, text: str, *, details: str = "") -> None:
        """Show a sentence, and under it, folded, its details."""
        folded = (
            f"<details><summary>Traceback</summary><pre>{escaped(details)}</pre></details>" if details else ""
        )
        self.value = (
            f'<div class="accel-alert" role="alert"><b>✗</b> <span>{escaped(text)}</span>{folded}</div>'
        )

    def tell(self, text: str) -> None:
        """Say something that is no error."""
        self.value = f'<div class="accel-told" role="status">{escaped(text)}</div>'

    def clear(self) -> None:
        """Nothing is wrong any more."""
        self.value = ""

    def guard(self, callback: Callable[..., object], *, clears: bool = True) -> Callable[..., None]:
        """The callback, with its errors shown here; one that goes well clears them, if it `clears`."""

        @functools.wraps(callback)
        def guarded(*given: Any, **named: Any) -> None:
            try:
                callback(*given, **named)
            except Exception as error:
                self.show(error)
            else:
                if clears:
                    self.clear()

        return guarded
