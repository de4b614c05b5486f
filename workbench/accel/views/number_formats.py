"""NumberFormats as text and HTML: a row a format, a column a device."""

from __future__ import annotations

from accel import html_parts
from accel.machine.number_formats import NumberFormats
from accel.units import table


def text(formats: NumberFormats) -> str:
    """The table, then what its words mean."""
    return "\n".join([*table([_headings(formats), *_rows(formats)]), "", *formats.legend])


def html(formats: NumberFormats) -> str:
    """The same."""
    drawn = html_parts.table(_headings(formats), _rows(formats), numeric=range(1, 7))
    return html_parts.block(drawn, *(html_parts.note(line) for line in formats.legend))


def _headings(formats: NumberFormats) -> list[str]:
    facts = ["format", "bits", "exponent", "fraction", "largest", "smallest normal", "epsilon"]
    return [*facts, *(each.device for each in formats.devices)]


def _rows(formats: NumberFormats) -> list[tuple[str, ...]]:
    return [
        (
            each.name, str(each.total_bits), str(each.exponent_bits or "–"), str(each.fraction_bits),
            *(f"{number:.5g}" for number in (each.largest, each.smallest_normal, each.epsilon)),
            *(device.of(each.name) for device in formats.devices),
        )
        for each in formats.formats
    ]  # fmt: skip
