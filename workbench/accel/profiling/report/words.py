"""Phases, shares, times, sizes and counts in words, as the report, the figures and the panels say them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel.profiling.profile_notes import count_of

if TYPE_CHECKING:
    from accel.profiling.profile import Profile

PHASE_WORDS = {
    "data": "Waiting for data",
    "copy": "Copying to the device",
    "forward": "Forward",
    "loss": "Loss",
    "backward": "Backward",
    "zero_grad": "Clearing gradients",
    "optimizer": "Optimizer",
    "scaler": "Gradient scaler",
}
NO_MODULE = "(outside any module)"
SHOWN_ROWS = 12
SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def phase_words(name: str) -> str:
    """A phase as a reader would say it; a gap names what it lies between.

    >>> phase_words("data"), phase_words("forward → backward")
    ('Waiting for data', 'Between forward and backward')
    """
    before, arrow, after = name.partition(" → ")
    if arrow:
        return f"Between {before} and {after}"
    return PHASE_WORDS.get(name, name)


def percent(share: float) -> str:
    """A share in per cent, with a digit more where it is small."""
    if math.isnan(share):
        return "–"
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def milliseconds(value: float) -> str:
    """A time given in ms, in the unit it reads best in.

    >>> milliseconds(12.345), milliseconds(0.0052)
    ('12.3 ms', '5.2 µs')
    """
    if math.isnan(value):
        return "–"
    if abs(value) >= 9999.5:
        return f"{value / 1e3:.3g} s"
    if abs(value) >= 99.5:
        return f"{value:.0f} ms"
    return f"{value:.3g} ms" if abs(value) >= 0.1 else f"{1e3 * value:.2g} µs"


def size(count: float) -> str:
    """Bytes, in the unit they read best in.

    >>> size(3_500_000), size(12)
    ('3.34 MiB', '12 B')
    """
    for unit, unit_bytes in SIZES:
        if abs(count) >= 0.9765 * unit_bytes:  # 1,000 and more would be shown as 1e+03
            return f"{count / unit_bytes:.3g} {unit}"
    return f"{count:.0f} B"


def op_base(profile: Profile) -> str:
    """What the times of operations are an average of."""
    if not profile.profiled_steps:
        return f"the whole {profile.timing.whole}"
    return count_of(profile.profiled_steps, "profiled step")
