"""What went wrong in a child, as the message that tells the kernel."""

from __future__ import annotations

import traceback
from pathlib import Path

import msgspec

from accel.errors import AccelError, shortened, words_of
from accel.private_disk import explained

_OURS = str(Path(__file__).parents[1])
HINT = "accel_hint"  # an attribute of errors: what is behind it, by whoever knew
_LONGEST_LINE = 500  # characters
_LONGEST_FRAMES = 20_000  # characters: a recursion has a thousand


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """Child → kernel: something raised; `traceback` has the user's lines."""

    kind: str
    message: str
    traceback: str
    asked: str = ""
    because: str = ""
    do: str = ""

    @property
    def said(self) -> str:
        """The first line of what it said; the traceback has it all."""
        return shortened(self.message.strip().split("\n", 1)[0], _LONGEST_LINE)

    @property
    def what(self) -> str:
        """The error in half a sentence."""
        return ": ".join(filter(None, (f"it raised {self.kind}", self.said)))

    def memory_advice(self, who: str, fewer: str) -> str:
        """What to do where memory ran out, that of a GPU included; empty for any other error.

        >>> failed.memory_advice("each rank", "fewer ranks")
        'It ran out of memory: each rank holds a copy of the model; use fewer ranks or a smaller batch.'
        """
        if "can't allocate memory" in self.message or self.kind in ("MemoryError", "OutOfMemoryError"):
            return f"It ran out of memory: {who} holds a copy of the model; use {fewer} or a smaller batch."
        return ""


def failure_of(error: BaseException, filename: str) -> Failed:
    """An error with its traceback from the first line of the user's file on; one of ours needs no traceback."""
    if isinstance(error, AccelError):
        return Failed(type(error).__name__, str(error), "", error.asked, error.because, error.do)
    frames = traceback.extract_tb(error.__traceback__)
    users = [i for i, frame in enumerate(frames) if frame.filename == filename]
    others = [i for i, frame in enumerate(frames) if not frame.filename.startswith(_OURS)]
    first = next(iter([*users, *others]), 0)  # ours come before the cell's
    frames_text = "".join(traceback.format_list(frames[first:]))
    last = shortened("".join(traceback.format_exception_only(error)))
    return Failed(
        type(error).__name__,
        words_of(error) + (f" ({hint})" if (hint := getattr(error, HINT, "") or explained(error)) else ""),
        f"Traceback (most recent call last):\n{shortened(frames_text, _LONGEST_FRAMES)}{last}",
    )
