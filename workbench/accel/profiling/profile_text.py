"""A Profile in words, and for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel.profiling.profile_notes import count_of

if TYPE_CHECKING:
    from accel.profiling.op_table import OpRow
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
SHOWN_OPS = 12


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
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def milliseconds(value: float) -> str:
    """A time given in ms, in the unit it reads best in.

    >>> milliseconds(12.345), milliseconds(0.0052)
    ('12.3 ms', '5.2 µs')
    """
    if math.isnan(value):
        return "–"
    if value >= 9999.5:
        return f"{value / 1e3:.3g} s"
    if value >= 99.5:
        return f"{value:.0f} ms"
    return f"{value:.3g} ms" if value >= 0.1 else f"{1e3 * value:.2g} µs"


def step_line(profile: Profile) -> str:
    """The step time with its spread and its count, in one line."""
    if not profile.steps:
        return f"No training step was seen; the cell took {milliseconds(profile.timing.cell_ms)}"
    low, high = profile.spread_ms
    spread = f"quartiles {milliseconds(low)} to {milliseconds(high)}, " if profile.steps > 1 else ""
    counted, unit = count_of(profile.steps, profile.timing.unit), profile.timing.unit
    speed = f" · {profile.samples_per_s:,.0f} samples/s" if profile.samples_per_s else ""
    batches = f" · {profile.accumulation} batches a step" if profile.accumulation > 1 else ""
    return f"{milliseconds(profile.step_ms)} a {unit} ({spread}{counted}){speed}{batches}"


def op_base(profile: Profile) -> str:
    """What the times of operations are an average of."""
    if not profile.profiled_steps:
        return "the whole cell"
    return count_of(profile.profiled_steps, "profiled step")


def phases_title(profile: Profile) -> str:
    """What the phases are shares of."""
    return f"Where a {profile.timing.unit} goes" if profile.steps else "Where the cell's time goes"


def profile_text(profile: Profile) -> str:
    """The whole profile as text, narrow enough for a terminal."""
    lines = [step_line(profile), "", phases_title(profile)]
    lines += [
        f"  {phase_words(p.name) + ':':<34}{percent(p.share):>7}  {milliseconds(p.ms):>9}  {'█' * round(24 * p.share)}"
        for p in profile.phases
        if p.share >= 0.001
    ]
    if profile.rows:
        lines += ["", f"Most expensive operations (self time, {op_base(profile)})"]
        lines += [_op_line(row) for row in profile.by_phase[:SHOWN_OPS]]
        lines += ["", "Most expensive modules"]
        lines += [_module_line(row) for row in profile.by_module if row.module][:SHOWN_OPS]
    lines += ["", *(f"Note: {note}" for note in profile.notes), profile.machine_line]
    return "\n".join(lines)


def _op_line(row: OpRow) -> str:
    return f"  {percent(row.share):>7}  {milliseconds(row.self_ms):>9}  {row.op}  · {phase_words(row.phase)}"


def _module_line(row: OpRow) -> str:
    return (
        f"  {percent(row.share):>7}  {milliseconds(row.self_ms):>9}  {row.module}  · {phase_words(row.phase)}"
    )
