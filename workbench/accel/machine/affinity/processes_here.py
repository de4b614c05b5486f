"""Which processes belong to this notebook: itself, its loader workers, its trial workers, and the ranks it started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from accel.errors import AccelError

if TYPE_CHECKING:
    import psutil

TRIAL_WORKER = "accel.workers.worker_main"
LOADER_WORKER = "pt_data_worker"  # as torch names its DataLoader's processes
Kind = Literal["notebook", "loader worker", "trial worker", "rank", "other"]
LETTERS: dict[Kind, str] = {
    "notebook": "N", "loader worker": "L", "trial worker": "T", "rank": "R", "other": "P",
}  # fmt: skip


class ProcessHere(NamedTuple):
    """One process: its name in words ("rank 0"), and as it stands on the core map ("R0")."""

    pid: int
    name: str
    kind: Kind = "other"
    short: str = ""


def processes_here(
    ranks: Mapping[int, int] | None = None, proc: Path | str = "/proc", *, pid: int | None = None
) -> tuple[ProcessHere, ...]:
    """This process, or `pid`, and those of its children that train: loader workers, trial workers and ranks.

    >>> [process.name for process in processes_here()]
    ['this notebook', 'loader worker 1', 'loader worker 2']

    `ranks` (rank → pid) are named by the caller; a child that was started with RANK in its environment, as torchrun does, is a
    rank too, and so are the ranks that were started with this one. Other children are shown if they are Python with torch's or
    multiprocessing's hand in them. Raises AccelError where there is no process `pid`.
    """
    proc = Path(proc)
    own = _process(pid)
    is_here = own.pid == os.getpid()
    name = ("this notebook" if _is_kernel() else "this process") if is_here else f"process {own.pid}"
    found = [ProcessHere(own.pid, name, "notebook", "N")]
    ranks_by_pid = {pid: rank for rank, pid in (ranks or {}).items()}
    variables = (f"{name}={value}" for name, value in os.environ.items())
    own_rank = rank_in("\0".join(variables) if is_here else _text(proc / str(own.pid) / "environ"))
    siblings = _sibling_ranks(own, own_rank, proc)
    for child in _children(own, set(ranks_by_pid) | siblings):
        parent_pid = _parent(child)
        parent = next((each for each in found if each.pid == parent_pid and each.kind != "notebook"), None)
        kind, rank = _kind(child, ranks_by_pid, own_rank, proc)
        if kind is None or (kind == "rank" and parent is not None and parent.kind == "rank"):
            continue  # what a rank starts inherits its environment, as compilers do
        number = rank if rank is not None else _next_number(kind, parent, found)
        short = f"{parent.short + ' ' if parent else ''}{LETTERS[kind]}{number}"
        name = f"{kind} {number}" if kind != "other" else f"process {number}"
        found.append(ProcessHere(child.pid, f"{parent.name}'s {name}" if parent else name, kind, short))
    return tuple(found)


def _next_number(kind: Kind, parent: ProcessHere | None, found: list[ProcessHere]) -> int:
    """Loader workers are counted for each process that starts them."""
    beginning = f"{parent.name}'s " if parent else ""
    alike = [
        each.name.removeprefix(beginning)
        for each in found
        if each.kind == kind and each.name.startswith(beginning)
    ]
    return 1 + sum("'s " not in name for name in alike)


def short_name(kind: Kind, name: str) -> str:
    """A process as it stands on the map: its kind's letter, and the number that ends its name.

    >>> short_name("rank", "rank 0")
    'R0'
    """
    return LETTERS[kind] + name[len(name.rstrip("0123456789")) :]


def _children(own: psutil.Process, named: set[int]) -> list[psutil.Process]:
    """All processes below this one, parents first, and ranks that the caller named, wherever they were started."""
    import psutil

    found = own.children(recursive=True)
    known = {child.pid for child in found}
    for pid in sorted(named - known - {own.pid}):
        try:
            rank = psutil.Process(pid)
            found += [rank, *(each for each in rank.children(recursive=True) if each.pid not in known)]
        except psutil.Error:  # it has ended
            continue
    return found


def _process(pid: int | None) -> psutil.Process:
    import psutil

    try:
        return psutil.Process(pid)
    except (psutil.Error, ValueError, OverflowError):
        raise AccelError(
            f"affinity(pid={pid})",
            because="there is no such process here",
            do="Give the number of one that runs, as `ps` shows it.",
        ) from None


def _sibling_ranks(own: psutil.Process, own_rank: int | None, proc: Path) -> set[int]:
    """The other ranks that the parent of this rank started, as torchrun starts one a GPU."""
    import psutil

    if own_rank is None:
        return set()
    try:
        parent = own.parent()
        siblings = parent.children() if parent is not None else []
    except psutil.Error:  # it has ended
        return set()
    return {
        each.pid for each in siblings if each.pid != own.pid and _kind(each, {}, own_rank, proc)[0] == "rank"
    }


def _kind(
    child: psutil.Process, ranks: dict[int, int], own_rank: int | None, proc: Path
) -> tuple[Kind | None, int | None]:
    if child.pid in ranks:
        return "rank", ranks[child.pid]
    folder = proc / str(child.pid)
    if _text(folder / "comm") == LOADER_WORKER:
        return "loader worker", None
    command = _text(folder / "cmdline").split("\0")
    if TRIAL_WORKER in command:
        return "trial worker", None
    rank = rank_in(_text(folder / "environ"))
    if rank is not None and rank != own_rank and "python" in command[0]:
        return "rank", rank
    is_worker = any("multiprocessing" in part for part in command)
    is_keeper = any("resource_tracker" in part or "forkserver" in part for part in command)
    return ("other", None) if is_worker and not is_keeper else (None, None)


def rank_in(environment: str) -> int | None:
    """The rank that a process was started as, from its environment as /proc shows it: RANK, or Slurm's."""
    variables = dict(each.partition("=")[::2] for each in environment.split("\0"))
    rank = variables.get("RANK") or variables.get("SLURM_PROCID") or ""
    return int(rank) if rank.isdecimal() else None


def _parent(child: psutil.Process) -> int:
    import psutil

    try:
        return child.ppid()
    except psutil.Error:  # it has ended
        return 0


def _is_kernel() -> bool:
    return "ipykernel" in sys.modules


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace").strip()
    except OSError:  # it has ended, or belongs to another user
        return ""
