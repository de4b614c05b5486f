"""The matrix of `nvidia-smi topo -m` as text, read from a paste, a pipe or a file.

What does not fit is refused with its line, never guessed: a paste that lost its tabs can look like another machine. A
damaged paste is accepted if only one reading is possible: lines broken at 80 columns, cells that run into each other, "# ", "> ".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from accel.errors import AccelError
from accel.machine.cpu_lists import parse_cpu_list
from accel.machine.topology.device_links import Device
from accel.machine.topology.links import Link
from accel.machine.topology.topology import Topology
from accel.units import counted

# What sets the title of a terminal, and the like: ESC ] … BEL, or ESC ] … ESC \.
_TITLES = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# nvidia-smi underlines its headings, in a pipe too; many a paste keeps "[4m" of that without the escape before it.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\ufffd\u241b]?\[\d+(?:;\d+)*m")
_DEVICE = re.compile(r"GPU\d+|(?!GPU)[A-Za-z][\w.-]*\d[\w.-]*", re.ASCII)
_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_BEHIND = re.compile(r"(?:^|\s)(CPU\s+Affinity)?(?:\s*(NUMA\s+Affinity))?(?:\s*(GPU\s+NUMA\s+ID))?\s*$")
_LABELS = re.compile(r"(?:GPU|NIC)\d+|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|X", re.ASCII)
_GLUED = re.compile(rf"(?<!\S)(?:{_LABELS.pattern}){{2,}}(?!\S)", re.ASCII)
_QUOTED = re.compile(r"^\s*(?:[#>]+ ?)+")
_NAMED_CARD = re.compile(r"\s*(NIC\d+):\s+(\S+)\s*$")
_NUMBERS = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", re.ASCII)
MOST_DEVICES = 128  # a machine has 16 GPUs and as many network cards; what is shown grows with the square
LARGEST_NUMBER = 65_535  # Linux knows 8,192 CPUs at most
_PEER_ACCESS = {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}
_NO_MATRIX = (
    "Give what `nvidia-smi topo -m` prints, from the line with GPU0 on: below %%accel topology in a notebook's cell, as "
    "accel.topology(text=...), or nvidia-smi topo -m | accel topology --from -."
)
_AGAIN = "Copy the matrix again, with its tabs or spaces: nvidia-smi topo -m > topo.txt, then %accel topology --from topo.txt."


def read_matrix(text: str, *, source: str = "") -> Topology:
    """The topology that a printed matrix shows.

    >>> read_matrix("      GPU0 GPU1\\n GPU0  X   NV2\\n GPU1 NV2   X").link("GPU0", "GPU1")
    Link(label='NV2')

    Rows may be named GPU0 or just 0; affinity columns may be missing; each line may begin with "# " or "> ". Joined cells,
    and lines that a terminal or a mail program broke, are repaired if only one repair is possible.
    Raises AccelError, with the line, where cells and columns do not match, a label is unknown, or the two halves differ.
    """
    lines = [(number, _plain(line)) for number, line in enumerate(text.splitlines(), start=1)]
    try:
        return _read(lines, source)
    except AccelError:
        mended = []
        for joint in ("", " "):  # a terminal breaks a line anywhere, a mail between two words
            with suppress(AccelError):
                mended.append(_read(_unbroken(lines, joint), source))
        if mended and all(each == mended[0] for each in mended):
            return mended[0]
        raise


def _read(lines: Sequence[tuple[int, str]], source: str) -> Topology:
    position, header = _header(lines)
    rows = _rows(lines[position + 1 :], header)
    _check_halves(rows, header.names)
    cards = {found[1]: found[2] for _, line in lines if (found := _NAMED_CARD.match(line))}
    devices = tuple(
        replace(row.device, model=cards.get(row.device.name, row.device.model if row.device.is_gpu else ""))
        for row in rows
    )
    return Topology(devices, tuple(row.links for row in rows), source)


def _unbroken(lines: Sequence[tuple[int, str]], joint: str) -> list[tuple[int, str]]:
    """The lines from the first GPU0 on; a line that neither begins a row nor ends the matrix joins the one above."""
    first_words = [line.split()[:1] for _, line in lines]
    begins = next((i for i, words in enumerate(first_words) if words and words[0].startswith("GPU0")), 0)
    whole: list[tuple[int, str]] = []
    for place, (number, line) in enumerate(lines[begins:]):
        words = _apart(line).split()
        if not words or words[0].startswith("Legend"):
            return [*whole, *lines[begins + place :]]
        if not whole or _begins_row(words, len(whole) - 1):
            whole.append((number, line))
        else:
            whole[-1] = (whole[-1][0], whole[-1][1] + joint + line)
    return whole


def _begins_row(words: Sequence[str], row: int) -> bool:
    """Whether these words begin the row of that number: its GPU by name or number, or any network card; then a link."""
    name, is_followed = words[0], len(words) > 1 and Link.is_label(words[1])
    is_card = bool(_DEVICE.fullmatch(name)) and not name.startswith("GPU") and not Link.is_label(name)
    return is_followed and (name in (f"GPU{row}", str(row)) or is_card)


def _apart(line: str) -> str:
    """The line with blanks between names or labels that run into each other."""
    return _GLUED.sub(lambda found: " ".join(_LABELS.findall(found[0])), line)


def _plain(line: str) -> str:
    """The line without what a terminal would obey, which must not come out of a paste again."""
    line = _QUOTED.sub("", _ESCAPES.sub("", _TITLES.sub("", line)))
    return "".join(letter for letter in line if letter == "\t" or unicodedata.category(letter)[0] != "C")


@dataclass(frozen=True)
class _Header:
    """The line of column names: the devices, and the columns behind them."""

    number: int
    names: tuple[str, ...]
    behind: tuple[str, ...]


@dataclass(frozen=True)
class _Row:
    number: int
    device: Device
    links: tuple[Link, ...] = field(default=())


def _header(lines: Sequence[tuple[int, str]]) -> tuple[int, _Header]:
    """Where the line of column names is, and what it says."""
    strange = None
    for position, (number, line) in enumerate(lines):
        words = _apart(line).split()
        if not words or not words[0].startswith("GPU0"):
            continue
        names: list[str] = []
        for word in words:
            if not _DEVICE.fullmatch(word) or (len(names) == 1 and Link.is_label(word)):
                break
            names.append(word)
        rest = " ".join(words[len(names) :])
        behind = _BEHIND.fullmatch(rest)
        if words[0] != "GPU0" or behind is None:
            is_row = words[0] == "GPU0" and len(words) > 1 and Link.is_label(words[1])
            begins = f"the line begins with {words[0][:20]}, but {rest[:40]!r} is not a column of a topology matrix"
            why = "the row of GPU0 has no line of column names above it" if is_row else begins
            strange = strange or (number, why)
            continue
        if len(names) > MOST_DEVICES:
            raise _refused(
                number, f"it names {len(names):,} devices, and {MOST_DEVICES} are the most that are shown"
            )
        if len(set(names)) != len(names):
            raise _refused(number, f"a column is named twice: {line.strip()}")
        joined = next((name for name in names if re.search(r"(?:GPU|NIC)\d+(?:GPU|NIC)", name)), None)
        if joined:
            raise _refused(number, f"the column names run into each other: {joined}")
        found = tuple(name for name, has in zip(_COLUMNS, behind.groups(), strict=True) if has)
        return position, _Header(number, tuple(names), found)
    if strange:
        raise _refused(*strange)
    raise AccelError(
        "A topology matrix", because="there is no line of column names that begins with GPU0", do=_NO_MATRIX
    )


def _rows(lines: Sequence[tuple[int, str]], header: _Header) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in lines:
        words = line.split()
        if not words:
            continue
        if len(rows) == len(header.names):
            if len(words) > 1 and _DEVICE.fullmatch(words[0]) and all(map(Link.is_label, words[1:3])):
                raise _refused(number, f"there is a row of {words[0]}, and no column of it")
            break
        rows.append(_row(number, line, header, header.names[len(rows)]))
    if len(rows) < len(header.names):
        read = counted(len(rows), "row")
        raise _refused(
            rows[-1].number if rows else header.number,
            f"it is the last of {read} for {len(header.names)} columns: {header.names[len(rows)]} is missing",
        )
    return rows


def _row(number: int, line: str, header: _Header, expected: str) -> _Row:
    words, columns = _apart(line).split(), header.names
    if words[0] not in (expected, expected.removeprefix("GPU")):
        raise _refused(
            number, f"the row of {expected} is expected here, and this one begins with {words[0]!r}"
        )
    cells = words[1 : 1 + len(columns)]
    for column, cell in zip(columns, cells, strict=False):
        if not Link.is_label(cell):
            peer = ": this is the matrix of -p2p, which tells no links" if cell in _PEER_ACCESS else ""
            raise _refused(
                number, f"{cell!r} below {column} is not a link (X, NV#, PIX, PXB, PHB, NODE, SYS){peer}"
            )
        if (cell == "X") != (column == expected):
            raise _refused(number, f"X stands for a device and itself, and below {column} there is {cell}")
    if len(cells) < len(columns):
        raise _refused(number, f"it has {len(cells)} cells for {len(columns)} columns")
    near = _cells_behind(number, line, words[1 + len(columns) :], header)
    return _Row(number, _device(number, expected, near), tuple(map(Link.of, cells)))


def _cells_behind(number: int, line: str, cells: list[str], header: _Header) -> dict[str, str]:
    """The cells behind the links by their column.

    Drivers leave cells empty (a container may be allowed none of the CPUs near a GPU) and put a tab too many before later
    ones, so an empty cell is known for one only in the first column, and only in a matrix with tabs. With fewer cells than
    columns nothing else is certain.
    """
    behind = header.behind
    if len(cells) > len(behind):
        raise _refused(number, f"there are more cells than columns: {' '.join(cells[len(behind) :])}")
    by_tab = line.rstrip().split("\t")
    first = 1 + len(header.names)
    if len(cells) == len(behind) - 1 and len(by_tab) > first and not by_tab[first].strip():
        return dict(zip(behind[1:], cells, strict=True))
    return dict(zip(behind, cells, strict=True)) if len(cells) == len(behind) else {}


def _device(number: int, name: str, near: dict[str, str]) -> Device:
    """The device with what the columns behind the links tell: near CPUs, near NUMA nodes, the node that a GPU itself is."""
    cpus, nodes, memory = (
        _numbers(number, near.get(column, "N/A"), says)
        for column, says in zip(
            _COLUMNS, ("no list of CPUs, such as 0-27,56-83", "no NUMA node", "no NUMA node of a GPU's memory"), strict=True
        )
    )  # fmt: skip
    return Device(
        name,
        cpus,
        nodes[0] if nodes else None,
        other_nodes=nodes[1:],
        memory_node=memory[0] if len(memory) == 1 else None,
    )


def _numbers(number: int, cell: str, says: str) -> tuple[int, ...]:
    """The numbers of a cell such as "0-27,56-83"; none of "N/A"."""
    if cell == "N/A":
        return ()
    if not _NUMBERS.fullmatch(cell) or not all(map(_is_range, cell.split(","))):
        raise _refused(number, f"{cell!r} is {says}")
    return parse_cpu_list(cell)


def _is_range(part: str) -> bool:
    first, _, last = part.partition("-")
    return int(first) <= int(last or first) <= LARGEST_NUMBER


def _check_halves(rows: list[_Row], columns: Sequence[str]) -> None:
    for first, row in enumerate(rows):
        for second in range(first):
            here, there = row.links[second], rows[second].links[first]
            if here != there:
                raise _refused(
                    row.number,
                    f"{columns[first]} and {columns[second]} are joined by {here.label} here, "
                    f"and by {there.label} in line {rows[second].number}",
                )


def _refused(number: int, because: str) -> AccelError:
    return AccelError(f"Line {number} of the topology matrix", because=because, do=_AGAIN)
