"""The matrix of `nvidia-smi topo -m` as text: read from a paste, a pipe or a file, and written in the same form.

What does not fit is refused with its line, never guessed: a paste that lost its tabs can look like another machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accel.errors import AccelError
from accel.machine.cpu import cpu_list, parse_cpu_list
from accel.machine.topology.links import Link
from accel.machine.topology.topology import Device, Topology

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # nvidia-smi underlines its headings
_DEVICE = re.compile(r"GPU\d+|NIC\d+|mlx\d+_\d+|(?:bnxt_re|ib|eth|en|rocep|irdma)\w*")
_NAMED_CARD = re.compile(r"\s*(NIC\d+):\s+(\S+)\s*$")
_CPU_LIST = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_NO_MATRIX = "Paste what `nvidia-smi topo -m` prints, from the line with GPU0 on."
_AGAIN = "Copy the matrix again, with its tabs or spaces: nvidia-smi topo -m > topo.txt, then %accel topology --from topo.txt."


def read_matrix(text: str, *, source: str = "") -> Topology:
    """The topology that a printed matrix shows.

    >>> read_matrix("      GPU0 GPU1\\n GPU0  X   NV2\\n GPU1 NV2   X").link("GPU0", "GPU1")
    Link(label='NV2')

    Rows may be named GPU0 or just 0; affinity columns may be missing. Raises AccelError, with the line, where cells and
    columns do not match, a label is unknown, or the two halves differ.
    """
    lines = [(number, _ESCAPES.sub("", line)) for number, line in enumerate(text.splitlines(), start=1)]
    position, columns = _header(lines)
    rows = _rows(lines[position + 1 :], columns)
    _check_halves(rows, columns)
    cards = {found[1]: found[2] for _, line in lines if (found := _NAMED_CARD.match(line))}
    devices = tuple(replace(row.device, model=cards.get(row.device.name, "")) for row in rows)
    return Topology(devices, tuple(row.links for row in rows), source)


@dataclass(frozen=True)
class _Row:
    number: int
    device: Device
    links: tuple[Link, ...] = field(default=())


def _header(lines: Sequence[tuple[int, str]]) -> tuple[int, list[str]]:
    """Where the line of column names is, and the devices it names."""
    for position, (number, line) in enumerate(lines):
        words = line.split()
        columns = []
        for word in words:
            if not _DEVICE.fullmatch(word):
                break
            columns.append(word)
        if (
            columns
            and columns[0] == "GPU0"
            and (len(words) == len(columns) or words[len(columns)] in ("CPU", "NUMA", "GPU"))
        ):
            if len(set(columns)) != len(columns):
                raise _refused(number, f"a column is named twice: {line.strip()}")
            return position, columns
        if words and words[0].startswith("GPU0") and "GPU1" in words[0]:
            raise _refused(number, f"the column names run into each other: {words[0][:40]}")
    raise AccelError(
        "A topology matrix", because="there is no line of column names that begins with GPU0", do=_NO_MATRIX
    )


def _rows(lines: Sequence[tuple[int, str]], columns: list[str]) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in lines:
        if len(rows) == len(columns):
            break
        words = line.split()
        if not words:
            continue
        rows.append(_row(number, words, columns, columns[len(rows)]))
    if len(rows) < len(columns):
        raise AccelError(
            "A topology matrix", because=f"it has {len(columns)} columns and {len(rows)} rows: {columns[len(rows)]} is missing",
            do=_AGAIN,
        )  # fmt: skip
    return rows


def _row(number: int, words: list[str], columns: list[str], expected: str) -> _Row:
    if words[0] not in (expected, expected.removeprefix("GPU")):
        raise _refused(
            number, f"the row of {expected} is expected here, and this one begins with {words[0]!r}"
        )
    cells = words[1 : 1 + len(columns)]
    for column, cell in zip(columns, cells, strict=False):
        if not Link.is_label(cell):
            raise _refused(
                number, f"{cell!r} below {column} is not a link (X, NV#, PIX, PXB, PHB, NODE, SYS)"
            )
        if (cell == "X") != (column == expected):
            raise _refused(number, f"X stands for a device and itself, and below {column} there is {cell}")
    if len(cells) < len(columns):
        raise _refused(number, f"it has {len(cells)} cells for {len(columns)} columns")
    return _Row(number, _device(number, expected, words[1 + len(columns) :]), tuple(map(Link.of, cells)))


def _device(number: int, name: str, extra: list[str]) -> Device:
    """The columns behind the links: CPU affinity, NUMA affinity, and the NUMA node that the GPU itself is."""
    if len(extra) > 3:
        raise _refused(number, f"there are more cells than columns: {' '.join(extra[3:])}")
    cpus, node, *_ = [*extra, "N/A", "N/A"]
    if cpus != "N/A" and not _CPU_LIST.fullmatch(cpus):
        raise _refused(number, f"{cpus!r} is no list of cores, such as 0-27,56-83")
    if node != "N/A" and not re.fullmatch(r"\d+(?:[-,]\d+)*", node):
        raise _refused(number, f"{node!r} is no NUMA node")
    return Device(name, parse_cpu_list(cpus) if cpus != "N/A" else (), int(node) if node.isdigit() else None)


def _check_halves(rows: list[_Row], columns: list[str]) -> None:
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


def written(topology: Topology) -> str:
    """The matrix with tabs between its cells, as `nvidia-smi topo -m` prints it; affinities where they are known.

    >>> read_matrix(written(topology)).links == topology.links
    True
    """
    devices = topology.devices
    has_cpus = any(device.cpus or device.numa_node is not None for device in devices)
    extra = ["CPU Affinity", "NUMA Affinity"] if has_cpus else []
    lines = ["\t".join(["", *(device.name for device in devices), *extra])]
    for device, row in zip(devices, topology.links, strict=True):
        cells = [" X " if link.label == "X" else link.label for link in row]
        node = "N/A" if device.numa_node is None else str(device.numa_node)
        near = [cpu_list(device.cpus) or "N/A", node] if has_cpus and device.is_gpu else []
        lines.append("\t".join([device.name, *cells, *near]))
    return "\n".join(lines)
