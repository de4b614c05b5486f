"""What `lscpu` tells of the processors, for systems on which /sys does not.

It knows other sources (the processor itself, device trees, hypervisors), and names Arm cores that our table has not yet.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel.machine.cpu_tree import CpuCache, CpuTree, KnownCpu
from accel.machine.system_files import number_in

Rows = list[dict[str, Any]]

COLUMNS = "CPU,CORE,SOCKET,NODE,CACHE,ONLINE"

_UNKNOWN = re.compile(
    r'(":\s*)-(?=\s*[,}\n])'
)  # util-linux 2.38 writes "node": - for a number that it does not know


@dataclass(frozen=True)
class LscpuAnswer:
    """Model, flags and logical CPUs; `why_not` says why there are none."""

    model: str = ""
    flags: str = ""
    tree: CpuTree = field(default_factory=CpuTree)
    why_not: str = ""


def ask_lscpu(root: Path | str = "/") -> LscpuAnswer:
    """Ask the program, of this machine or of a copied tree.

    >>> ask_lscpu().model
    'AMD EPYC'
    """
    program = shutil.which("lscpu")
    if program is None:
        return LscpuAnswer(why_not="there is no lscpu on PATH")
    where = [] if Path(root) == Path("/") else ["--sysroot", str(root)]
    try:
        summary = _answer([program, *where, "--json"], "lscpu")
        cpus = _answer([program, *where, "--json", f"--extended={COLUMNS}"], "cpus")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return LscpuAnswer(why_not=f"lscpu failed: {error}")
    try:
        caches = _answer([program, *where, "--json", "--bytes", "--caches=NAME,ONE-SIZE"], "caches")
    except (
        OSError,
        subprocess.SubprocessError,
        ValueError,
    ):  # util-linux before 2.34 lists caches but not their sizes
        caches = []
    fields = dict(_fields(summary))
    return LscpuAnswer(_text(fields.get("Model name")), _text(fields.get("Flags")), _tree(cpus, caches))


def _answer(command: list[str], key: str) -> Rows:
    """The objects that the program lists under a key."""
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, env=environment, check=True)
    answer = json.loads(_UNKNOWN.sub(r"\1null", done.stdout) or "{}")
    return _rows(answer.get(key) if isinstance(answer, dict) else None)


def _rows(value: object) -> Rows:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _fields(entries: Rows) -> Iterator[tuple[str, Any]]:
    """Newer versions put fields below others."""
    for entry in entries:
        yield str(entry.get("field", "")).rstrip(":"), entry.get("data")
        yield from _fields(_rows(entry.get("children")))


def _tree(cpus: Rows, caches: Rows) -> CpuTree:
    """Which CPUs belong together: those with the same number of core, of each cache, or of node."""
    sizes = {_text(cache.get("name")): number_in(_text(cache.get("one-size"))) or 0 for cache in caches}
    online = [cpu for cpu in cpus if cpu.get("online") in (True, "yes", None)]
    rows = [(number, cpu) for cpu in online if (number := number_in(_text(cpu.get("cpu")))) is not None]
    together: dict[tuple[str, ...], tuple[int, ...]] = {}
    for number, cpu in rows:
        for group in (_core_of(cpu), ("node", _text(cpu.get("node"))), *_caches_of(cpu)):
            together[group] = (*together.get(group, ()), number)
    known = [
        KnownCpu(
            number,
            core=number_in(_text(cpu.get("core"))),
            socket=number_in(_text(cpu.get("socket"))),
            siblings=together[_core_of(cpu)] if _text(cpu.get("core")) else (),
            caches=tuple(
                CpuCache(int(name[1]), name[2:], sizes.get(name, 0), together[name, which])
                for name, which in _caches_of(cpu)
            ),
        )
        for number, cpu in rows
    ]
    nodes = {
        int(group[1]): numbers
        for group, numbers in together.items()
        if group[0] == "node" and group[1].isdigit()
    }
    return CpuTree(tuple(known), tuple(sorted(nodes.items())), source="lscpu")


def _core_of(cpu: dict[str, Any]) -> tuple[str, str, str]:
    return "core", _text(cpu.get("socket")), _text(cpu.get("core"))


def _caches_of(cpu: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, which one) from a cell such as "l1d:l1i:l2:l3": "1:1:1:0"."""
    heading = next((name for name in cpu if name.startswith("l1")), "")
    pairs = zip(heading.split(":"), _text(cpu.get(heading)).split(":"), strict=False)
    return [(f"L{name[1:]}", which) for name, which in pairs if name[1:2].isdigit() and which.isdigit()]


def _text(value: object) -> str:
    """A cell as text: numbers come as numbers or as text, what is not known as null or "-"."""
    return "" if value in (None, "-") else str(value)
