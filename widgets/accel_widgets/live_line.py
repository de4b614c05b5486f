"""The plan that is live in the notebook, with Undo beside it."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets

from accel.html_parts import text as escaped
from accel_widgets.shared_looks import looks, shared


class LiveLine(ipywidgets.HBox):
    """Says which plan is live, or that none is; Undo takes it back.

    >>> line = LiveLine(on_undo=workbench.undo)
    >>> line.show("channels_last")
    """

    def __init__(self, *, on_undo: Callable[[], object]) -> None:
        self.text = shared(ipywidgets.HTML)
        self.undo_button = shared(
            ipywidgets.Button, description="Undo", tooltip="Take back what is live, bit for bit",
            classes="accel-button accel-undo",
        )  # fmt: skip
        self.undo_button.on_click(lambda _button: on_undo())
        super().__init__([self.text, self.undo_button], **looks(ipywidgets.HBox, "accel accel-live-line"))
        self.show("")

    def show(self, kept: str) -> None:
        """Show the plan that is live; "" for none."""
        plan = f'<b class="accel-is-live">●</b> Live in this notebook: <code>{escaped(kept)}</code>'
        self.text.value = plan if kept else "Nothing is live: your notebook runs as you wrote it."
        self.undo_button.disabled = not kept
