"""Shares, times, sizes, counts and small tables in words: the one place for units, percent signs, plurals and columns."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

_SIZES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGT]?)(iB|B|)", re.IGNORECASE)
_MARKDOWN = re.compile(r"[\\`*|<>\[\]~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_FORMS = re.compile(r"(?:step|batch|process)\b")  # the noun of "step under torch.profiler" is not at the end


def percent(share: float, digits: int | None = None) -> str:
    """A share in per cent; unless `digits` says how many, with one after the point where it is small.

    >>> percent(0.38), percent(0.0123), percent(0.05, 0)
    ('38 %', '1.2 %', '5 %')
    """
    if math.isnan(share):
        return "–"
    if digits is None:
        digits = 0 if share >= 0.095 else 1
    return f"{100 * share:.{digits}f} %"


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
    return (
        f"{value:.3g} ms" if abs(value) >= 0.1 else f"{1e3 * value:.{3 if abs(value) >= 0.0995 else 2}g} µs"
    )


def size(count: float) -> str:
    """Bytes, in the unit they read best in.

    >>> size(3_500_000), size(12)
    ('3.34 MiB', '12 B')
    """
    for unit, unit_bytes in _SIZES:
        if abs(count) >= 0.9765 * unit_bytes:  # 1,000 and more would be shown as 1e+03
            return f"{count / unit_bytes:.3g} {unit}"
    return f"{count:.0f} B"


def in_bytes(text: str) -> float:
    """A size with its unit, in bytes: GB are powers of ten, GiB and G of two; NaN for anything else.

    >>> in_bytes("2GB"), in_bytes("1.5 GiB"), in_bytes("512M"), in_bytes("much")
    (2000000000.0, 1610612736.0, 536870912.0, nan)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return math.nan
    number, prefix, unit = found.groups()
    step = 1000.0 if unit.upper() == "B" else 1024.0
    return float(number) * math.pow(step, " KMGT".index(prefix.upper() or " "))


def scaled(count: float, unit: str) -> str:
    """A count in thousands, millions …: 1.85 GFLOP; without a unit "1.85 G"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= factor:
            return f"{count / factor:.3g} {prefix}{unit}"
    return f"{count:.4g} {unit}".rstrip()


def gigabytes(bytes_per_s: float) -> str:
    """Bytes a second in words.

    >>> gigabytes(41.2e9)
    '41.2 GB/s'
    """
    return f"{bytes_per_s / 1e9:,.3g} GB/s"


def in_number(count: float, what: str) -> str:
    """A noun in the number that the count asks for.

    >>> in_number(2, "step under torch.profiler"), in_number(1, "CPU"), in_number(3, "process")
    ('steps under torch.profiler', 'CPU', 'processes')
    """
    if count == 1:
        return what
    found = _FORMS.search(what)
    end = found.end() if found else len(what)
    ending = "es" if what[:end].endswith(("ss", "ch", "sh")) else "s"
    return f"{what[:end]}{ending}{what[end:]}"


def duration(seconds: float) -> str:
    """A time as people say it, to the next smaller unit.

    >>> duration(42), duration(754), duration(11_100)
    ('42 s', '12 min 34 s', '3 h 5 min')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def clock(seconds: float) -> str:
    """A time that somebody watches: minutes and seconds, as a clock shows them.

    >>> clock(14), clock(65.4), clock(3723)
    ('0:14', '1:05', '1:02:03')
    """
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def counted(count: float, what: str) -> str:
    """A count with its noun.

    >>> counted(3, "step"), counted(1, "thread"), counted(1200, "sample")
    ('3 steps', '1 thread', '1,200 samples')
    """
    return f"{count:,} {in_number(count, what)}"


def markdown_table(rows: Iterable[Mapping[str, object]], *, above: str = "", below: str = "") -> str:
    """Rows as a table in GitHub's Markdown, without columns that are empty throughout, between two lines of text.

    >>> print(markdown_table([{"plan": "a|b", "ratio": 1.9312, "note": ""}]))
    | plan | ratio |
    | --- | --- |
    | a\\|b | 1.931 |
    """
    cells = [{name: _in_markdown(value) for name, value in row.items()} for row in rows]
    names = [name for name in (cells[0] if cells else {}) if any(row[name] for row in cells)]
    lines = [names, ["---"] * len(names), *([row[name] for name in names] for row in cells)]
    drawn = "\n".join(f"| {' | '.join(line)} |" for line in lines) if names else ""
    return "\n\n".join(filter(None, [_in_markdown(above), drawn, _in_markdown(below)]))


def csv_table(rows: Iterable[Mapping[str, object]], columns: Sequence[str] = ()) -> str:
    """Rows for a spreadsheet, below the names of their columns; what is not a number is left empty.

    >>> csv_table([{"plan": "autocast", "ratio": 1.93}])
    'plan,ratio\\nautocast,1.93\\n'
    """
    known, text = list(rows), io.StringIO()
    writer = csv.DictWriter(text, columns or list(known[0] if known else ()), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value != value else value for name, value in row.items()} for row in known)
    return text.getvalue()


def _in_markdown(value: object) -> str:
    """A cell: on one line, and no letter of it means anything to Markdown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    said = f"{value:.4g}" if isinstance(value, float) else str(value)
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(said.split()))


def table(rows: Iterable[Sequence[str]], *, numeric: Collection[int] = ()) -> list[str]:
    """Rows as lines with even columns; those in `numeric` are right-aligned.

    >>> table([("plan", "ms"), ("autocast", "7")], numeric=[1])
    ['plan      ms', 'autocast   7']
    """
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
