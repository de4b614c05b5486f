"""What went wrong in a worker, as the message that tells the kernel."""

from __future__ import annotations

import os
import traceback

import accel
from accel.errors import AccelError, shortened, words_of
from accel.private_disk import explained
from accel.workers.messages import Failed

_OURS = os.path.dirname(accel.__file__)
_LONGEST_FRAMES = 20_000  # characters: a recursion has a thousand


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
        words_of(error) + (f" ({hint})" if (hint := explained(error)) else ""),
        f"Traceback (most recent call last):\n{shortened(frames_text, _LONGEST_FRAMES)}{last}",
    )
