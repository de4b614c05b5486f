"""A Profile as data frames: one kind a question, one row a thing. A new kind is a line in TABLES."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from accel.errors import UnknownName
from accel.profiling.device_activity import CopyRow, KernelRow
from accel.profiling.findings import Finding
from accel.profiling.line_cost import LineCost
from accel.profiling.loader_time import TransformTime
from accel.profiling.memory_use import MemoryPoint
from accel.profiling.op_cost import OpCost
from accel.profiling.op_table import OpRow
from accel.profiling.step_timing import OneStep, PhaseShare
from accel.profiling.synchronisations import Synchronisation

if TYPE_CHECKING:
    import pandas

    from accel.profiling.profile_data import ProfileData

# (what a row is, the rows with what else tells them apart); a kind without data gives an empty table with its columns.
TABLES: dict[str, tuple[type, Callable[[ProfileData], Iterable[tuple[dict[str, Any], Any]]]]] = {
    "operations": (OpRow, lambda profile: (({}, row) for row in profile.rows)),
    "phases": (PhaseShare, lambda profile: (({}, row) for row in profile.phases)),
    "steps": (OneStep, lambda profile: (({}, step) for step in profile.timing.each_step)),
    "lines": (LineCost, lambda profile: (({}, row) for row in profile.lines)),
    "costs": (OpCost, lambda profile: (({}, cost) for cost in profile.costs)),
    "kernels": (KernelRow, lambda p: (({"device": d.device}, row) for d in p.devices for row in d.kernels)),
    "copies": (CopyRow, lambda p: (({"device": d.device}, row) for d in p.devices for row in d.copies)),
    "memory": (MemoryPoint, lambda p: (({"device": use.device}, point) for use in p.memory for point in use.points)),
    "loaders": (TransformTime, lambda p: (({"loader": one.loader}, row) for one in p.loaders for row in one.stages)),
    "synchronisations": (Synchronisation, lambda profile: (({}, row) for row in profile.synchronisations)),
    "findings": (Finding, lambda profile: (({}, row) for row in profile.findings)),
}  # fmt: skip
KEYS = {"kernels": ["device"], "copies": ["device"], "memory": ["device"], "loaders": ["loader"]}


def profile_table(profile: ProfileData, kind: str = "operations") -> pandas.DataFrame:
    """One of them; a wrong kind gives the nearest right word.

    >>> profile_table(profile, "steps")[["ms", "is_warm_up"]]
    """
    import pandas

    columns, rows = columns_and_rows(profile, kind)
    return pandas.DataFrame(rows, columns=columns)


def columns_and_rows(profile: ProfileData, kind: str) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of its columns, and its rows as plain values."""
    if kind not in TABLES:
        raise UnknownName("table", kind, TABLES)
    row_type, rows = TABLES[kind]
    columns = [*KEYS.get(kind, []), *(field.name for field in fields(row_type))]
    return columns, [{**keys, **asdict(row)} for keys, row in rows(profile)]
