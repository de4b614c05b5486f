"""News for the page rather than for a cell: JupyterLab shows it as a notice, and nothing of it is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel import options

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NEWS = "application/vnd.accel.news+json"


def toast(shell: InteractiveShell, text: str) -> None:
    """Say in a corner of the page that something is over; in a terminal nothing, and nothing where accel's extension is missing.

    It is an update of an output that no cell has, which every frontend passes over; widgets/labextension listens for it.

    >>> toast(shell, "Your trial is over: channels_last is 1.2 times as fast.")
    """
    if hasattr(shell, "kernel"):
        news = {"kind": "toast", "text": text}
        shell.display_pub.publish({NEWS: news}, transient={"display_id": "accel-news"}, update=True)


def toast_if_long(shell: InteractiveShell, called: str, result: object, seconds: float) -> None:
    """A notice that something is over, and what to do, where it took longer than `accel.options.toast_after_s`.

    >>> toast_if_long(shell, "%accel try", ladder, 34.0)
    """
    if seconds > options.toast_after_s:
        summary = getattr(result, "summary", "")  # a method of some, which say something else by it
        is_told = isinstance(summary, str) and summary
        toast(shell, summary if is_told else f"{called} is done after {seconds:.0f} s.")
