"""How near the most expensive operations come to the peaks of this machine, and what holds them back."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from accel import units
from accel.html_parts import Markup, bar, block, heading, note
from accel.profiling.phase_words import phase_words
from accel.units import percent
from accel.views.peaks import of_devices
from accel.views.profile.parts import long_table, time_cell, whole
from accel.views.profile.section import SHOWN_ROWS, WIDTH, Section

if TYPE_CHECKING:
    from accel.profiling.profile import Profile
    from accel.profiling.roofline import Roofline, RooflinePoint

TITLE = "How near this machine's peaks"
BOUND_WORDS = {"compute": "computing", "memory": "moving data", "link": "copying"}
HEADINGS = ("Operation", "Shapes", "Phase", "Time", "GFLOP/s", "GB/s", "Bound by", "Of the attainable", "")


def text(roofline: Roofline) -> str:
    """The longest operations with their rates, then the peaks."""
    return "\n".join(_lines(roofline))


def html(roofline: Roofline) -> Markup:
    """The same as static HTML."""
    return block(*_pieces(roofline))


def _lines(roofline: Roofline) -> Iterator[str]:
    yield f"{TITLE} (operations of known cost: {percent(roofline.known_share)} of the operations' time)"
    yield from (f"  {line}" for line in units.table(_rows(roofline), numeric=(0, 1, 2, 4)))
    yield from (f"  {line}" for line in of_devices(roofline.peaks))
    for said in roofline.notes:
        yield from wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _pieces(roofline: Roofline) -> Iterator[object]:
    yield heading(
        f"{TITLE} (operations of known cost: {percent(roofline.known_share)} of the operations' time)"
    )
    rest = "profile.roofline().to_dataframe()"
    yield from long_table(HEADINGS, list(map(_cells, roofline.points)), numeric=(3, 4, 5, 7), rest_in=rest)
    yield from map(note, [*(line.strip() for line in of_devices(roofline.peaks)), *roofline.notes])


def _rows(roofline: Roofline) -> Iterator[tuple[str, ...]]:
    yield "ms", "GFLOP/s", "GB/s", "bound by", "attained", ""
    for point in roofline.points[:SHOWN_ROWS]:
        rates = f"{point.flops_per_s / 1e9:,.4g}", f"{point.bytes_per_s / 1e9:,.4g}"
        what = f"{point.op} {point.shapes}"[:58]
        yield f"{point.ms:.3g}", *rates, BOUND_WORDS[point.bound], percent(point.attained), what


def _cells(point: RooflinePoint) -> list[object]:
    shapes, phase = _breaking_between(point.shapes), phase_words(point.phase)
    rates = (f"{point.flops_per_s / 1e9:,.4g}", f"{point.bytes_per_s / 1e9:,.4g}")
    attained = (whole(percent(point.attained)), bar(point.attained, width_px=80))
    return [point.op, shapes, phase, time_cell(point.ms), *rates, BOUND_WORDS[point.bound], *attained]


def _breaking_between(shapes: str) -> str:
    """A narrow column may break a line between two shapes, not inside one."""
    return shapes.replace(", ", ",\N{NO-BREAK SPACE}")


def _text(profile: Profile) -> Iterator[str]:
    if profile.costs:
        yield from _lines(profile.roofline())


def _html(profile: Profile) -> Iterator[object]:
    if profile.costs:
        yield from _pieces(profile.roofline())


ROOFLINE = Section("roofline", _text, _html, is_open=True)
