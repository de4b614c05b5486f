"""The environment that is being made: how far it is, and Stop. Nothing is shown while none is."""

from __future__ import annotations

import threading
from collections.abc import Callable

import ipywidgets

from accel.html_parts import text as escaped
from accel_widgets.error_line import ErrorLine


class Stopped(Exception):
    """The user wants it no more."""


class EnvironmentLine(ipywidgets.HBox):
    """Makes an environment in a thread of its own: the notebook's cells can run at the same time.

    >>> line = EnvironmentLine(on_made=board.refresh, errors=ErrorLine())
    >>> line.make("intel")
    >>> line.stop_button.click()      # nothing of it is left
    """

    def __init__(self, *, on_made: Callable[[], object], errors: ErrorLine) -> None:
        self._on_made, self._errors = on_made, errors
        self._thread: threading.Thread | None = None
        self._is_stopped = threading.Event()
        self.text = ipywidgets.HTML()
        self.stop_button = ipywidgets.Button(
            description="Stop", tooltip="Make no environment; nothing of it is left",
            _dom_classes=("accel-button", "accel-stop-environment"),
        )  # fmt: skip
        self.stop_button.on_click(lambda _button: self._is_stopped.set())
        super().__init__(
            [self.text, self.stop_button],
            layout={"display": "none"},
            _dom_classes=("accel", "accel-environment-line"),
        )

    def make(self, name: str) -> None:
        """Begin; while one is made, another is refused."""
        if self._thread is not None and self._thread.is_alive():
            self._errors.tell("An environment is being made. Wait for it, or stop it.")
            return
        self._is_stopped.clear()
        self._show(f"{name}: beginning")
        self._thread = threading.Thread(target=self._make, args=(name,), name=f"make {name}", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until nothing is made any more."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Stop what is being made."""
        self._is_stopped.set()
        super().close()

    def _make(self, name: str) -> None:
        from accel.environments.asked import environments_asked

        def say(line: str) -> None:
            if self._is_stopped.is_set():
                raise Stopped
            self._show(f"{name}: {line}")

        try:
            done = environments_asked("create", name, say=say).done
        except Stopped:
            self._errors.tell(f"{name} was not made. Nothing of it is left.")
        except Exception as error:
            self._errors.show(error)
        else:
            self._errors.tell(done)
            self._on_made()
        finally:
            self.layout.display = "none"

    def _show(self, line: str) -> None:
        self.text.value = f'<span role="status">{escaped(line)}</span>'
        self.layout.display = None
