"""Memory over the profiled steps: the curve, its peak, who held how much, and how much was allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import BLUE, Markup, bar, columns, div, heading, note, text
from accel.profiling.phase_words import NO_MODULE, phase_words, place_words
from accel.units import size
from accel.views.profile.parts import long_table, whole
from accel.views.profile.section import SHOWN_ROWS, Section, block_of, op_base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.profiling.memory_use import MemoryPoint, MemoryUse
    from accel.profiling.profile import Profile

BARS = 100
HEIGHT_PX = 60


def _text(profile: Profile) -> Iterator[str]:
    for use in profile.memory:
        yield _title(use, profile)
        yield f"  {_peak(use)}"
        yield f"  {_served(use)}"
        yield "  " + "".join(block_of(share) for share, _ in _curve(use.points))
        for phase, module, count in _held(use)[:SHOWN_ROWS]:
            yield f"  {size(count):>10}  {place_words(phase, module)}"
        yield from (f"  {name}: {_statistic(name, value)}" for name, value in use.allocator)


def _html(profile: Profile) -> Iterator[object]:
    for use in profile.memory:
        yield heading(_title(use, profile))
        yield text(_peak(use))
        yield Markup("<br>")
        yield text(_served(use))
        yield columns(_bar(share, point) for share, point in _curve(use.points))
        yield note(
            "Bytes held by tensors above the start of the first profiled step, over all profiled steps."
        )
        top = max(use.peak_bytes, 1)
        rows = [
            (phase_words(phase), module or NO_MODULE, whole(size(count)), bar(count / top))
            for phase, module, count in _held(use)
        ]
        yield from long_table(["Phase", "Module", "Peak", ""], rows, numeric=[2], rest_in=".memory")
        if use.allocator:
            counters = [(name, whole(_statistic(name, value))) for name, value in use.allocator]
            yield from long_table(["CUDA allocator, since the process began", ""], counters, numeric=[1])


def _title(use: MemoryUse, profile: Profile) -> str:
    return f"Memory of tensors on {use.device} ({op_base(profile)})"


def _peak(use: MemoryUse) -> str:
    where = place_words(use.peak_phase, use.peak_module)
    return f"Peak: {size(use.peak_bytes)} above the start of the first step, in {where}."


def _served(use: MemoryUse) -> str:
    often = f"{use.allocations_per_step:,.0f} allocations"
    return f"Allocated: {size(use.allocated_bytes_per_step)} a step in {often}."


def _held(use: MemoryUse) -> list[tuple[str, str, int]]:
    """Who held something at all."""
    return [row for row in use.peak_by if row[2] > 0]


def _statistic(name: str, value: int) -> str:
    return size(value) if "bytes" in name else f"{value:,}"


def _curve(points: tuple[MemoryPoint, ...]) -> list[tuple[float, MemoryPoint]]:
    """The highest point of each stretch of time, with its share of the way from the lowest to the highest of all."""
    if not points:
        return []
    low, high = min(p.bytes for p in points), max(p.bytes for p in points)
    first, length = points[0].ms, (points[-1].ms - points[0].ms) or 1.0
    tops: dict[int, MemoryPoint] = {}
    last = points[0]
    for point in points:
        place = min(int(BARS * (point.ms - first) / length), BARS - 1)
        for between in range(
            max(tops, default=-1) + 1, place
        ):  # nothing happened between the two points: what was held is held
            tops[between] = last
        if place not in tops or point.bytes > tops[place].bytes:
            tops[place] = point
        last = point
    return [((point.bytes - low) / ((high - low) or 1), point) for _, point in sorted(tops.items())]


def _bar(share: float, point: MemoryPoint) -> Markup:
    tooltip = f"{size(point.bytes)} at {point.ms:.3g} ms: {place_words(point.phase, point.module)}"
    height = max(1, round(HEIGHT_PX * share))
    return div(
        f"flex:1 1 0;max-width:9px;height:{height}px;background-color:{BLUE};opacity:.85", title=tooltip
    )


MEMORY = Section("memory", _text, _html, is_open=True)
