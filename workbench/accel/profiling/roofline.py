"""How near each operation comes to what this machine can do: its rate against the measured peaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from accel.errors import AccelError
from accel.machine.peaks import Peaks
from accel.profiling.op_cost import METHOD
from accel.shown import Shown

if TYPE_CHECKING:
    import pandas

    from accel.profiling.op_cost import OpCost

Bound = Literal["compute", "memory", "link"]
TOO_FAST = 1.05  # of the attainable rate: beyond what two measurements of the same differ by


@dataclass(frozen=True)
class RooflinePoint:
    """One operation with one set of shapes, or one module ("" in `op` and `shapes`), per step.

    `attainable_ms` is the time that the peaks allow: the longer of computing and moving, whose name is `bound`; of a copy between
    host and device it is that of the way between them, "link", and `bytes` counts what crosses it, once. `share` is
    of the time of all operations whose cost is known.
    """

    op: str
    phase: str
    module: str
    shapes: str
    dtype: str
    device: str
    ms: float
    share: float
    flops: float
    bytes: float
    bound: Bound
    attainable_ms: float

    @property
    def flops_per_s(self) -> float:
        """Achieved FLOP/s."""
        return self.flops / self.ms * 1e3 if self.ms else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Achieved bytes/s."""
        return self.bytes / self.ms * 1e3 if self.ms else 0.0

    @property
    def intensity(self) -> float:
        """FLOPs for each byte moved."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def attained(self) -> float:
        """The share of the attainable rate that was reached; above 1 the peak was measured too low."""
        return self.attainable_ms / self.ms if self.ms else 0.0


@dataclass(frozen=True)
class Roofline(Shown):
    """All points of a profile, longest first, and the peaks they are held against.

    >>> print(profile.roofline())

    `known_share` is the part of the operations' time whose cost is known; `modules` leave out what belongs to none.
    """

    points: tuple[RooflinePoint, ...]
    modules: tuple[RooflinePoint, ...]
    peaks: Peaks
    known_share: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Points, modules and peaks as plain values, with the rates (FLOP/s, bytes/s) that follow from them."""
        return {
            "points": [_point_dict(point) for point in self.points],
            "modules": [_point_dict(point) for point in self.modules],
            "peaks": self.peaks.to_dict(), "known_share": self.known_share, "notes": list(self.notes), "method": METHOD,
        }  # fmt: skip

    def to_dataframe(self) -> pandas.DataFrame:
        """One row for each operation with one set of shapes, longest first."""
        import pandas

        return pandas.DataFrame([_point_dict(point) for point in self.points])


def roofline_of(costs: Sequence[OpCost], known: Peaks | None) -> Roofline:
    """The roofline of a profile with these costs; AccelError when there are none, for then it holds no shapes.

    >>> roofline_of(profile.costs, profile.peaks).modules[0].bound
    'compute'
    """
    from accel.machine.peaks import peaks

    if not costs:
        raise AccelError(
            "profile.roofline()", because="this profile holds no shapes of operations",
            do="Profile the cell with --shapes (in a script, shapes=True).",
        )  # fmt: skip
    return hold_against(costs, known or peaks())


def hold_against(costs: Sequence[OpCost], peaks: Peaks) -> Roofline:
    """The roofline of these costs; operations of unknown cost, and those that do no work themselves, have no point.

    >>> hold_against(profile.costs, accel.peaks()).points[0].bound
    'compute'
    """
    works = [cost for cost in costs if cost.flops is None or cost.flops or cost.bytes]
    known = [cost for cost in works if cost.bytes is not None and cost.ms > 0 and peaks.of(cost.device)]
    total = sum(cost.ms for cost in works) or 1.0
    known_ms = sum(cost.ms for cost in known)
    points = tuple(_point(cost, peaks, known_ms) for cost in known)
    return Roofline(
        points=points, modules=_modules(points), peaks=peaks, known_share=known_ms / total, notes=_notes(points, works, peaks),
    )  # fmt: skip


def _point(cost: OpCost, peaks: Peaks, known_ms: float) -> RooflinePoint:
    """The attainable time of one operation: the longer of computing at the peak and of moving at the peak."""
    if (link := _link_rate(cost, peaks)) is not None:
        crossing = (cost.bytes or 0.0) / 2  # each byte was counted as read and as written
        return RooflinePoint(
            cost.op, cost.phase, cost.module, cost.shapes, cost.dtype, cost.device, cost.ms, cost.ms / known_ms, 0.0, crossing,
            "link", crossing / link * 1e3,
        )  # fmt: skip
    device = peaks.of(cost.device)
    flops, moved = cost.flops or 0.0, cost.bytes or 0.0
    assert device is not None
    rate = device.flop_rate(cost.dtype)
    if cost.device != "cpu" and cost.dtype == "float32" and flops / cost.ms * 1e3 > rate:
        rate = device.flop_rate("tf32")  # faster than plain float32 can be: tensor cores were used
    computing = flops / rate * 1e3
    moving = moved / device.byte_rate(moved / max(cost.calls, 1e-9)) * 1e3
    return RooflinePoint(
        cost.op, cost.phase, cost.module, cost.shapes, cost.dtype, cost.device, cost.ms, cost.ms / known_ms, flops, moved,
        "compute" if computing > moving else "memory", max(computing, moving),
    )  # fmt: skip


def _link_rate(cost: OpCost, peaks: Peaks) -> float | None:
    """The measured rate of the copy that an operation is; None for one that stays on its device, and where none was measured."""
    ways = {"host to device": ("cpu", cost.device), "device to host": (cost.device, "cpu")}
    if cost.copied is None or cost.copied.kind not in ways:
        return None
    return peaks.copies.rate(*ways[cost.copied.kind], pinned=cost.copied.memory == "pinned")


def _modules(points: Sequence[RooflinePoint]) -> tuple[RooflinePoint, ...]:
    """Points added up by module and phase; the bound is that of most of the attainable time."""
    groups: dict[tuple[str, str, str], list[RooflinePoint]] = {}
    for point in points:
        if point.module:
            groups.setdefault((point.module, point.phase, point.device), []).append(point)
    found = []
    for (module, phase, device), members in groups.items():
        attainable = sum(point.attainable_ms for point in members)
        by_bound: dict[Bound, float] = {"memory": 0.0}
        for point in members:
            by_bound[point.bound] = by_bound.get(point.bound, 0.0) + point.attainable_ms
        found.append(RooflinePoint(
            "", phase, module, "", members[0].dtype, device, sum(point.ms for point in members),
            sum(point.share for point in members), sum(point.flops for point in members),
            sum(point.bytes for point in members), max(by_bound, key=lambda bound: by_bound[bound]), attainable,
        ))  # fmt: skip
    return tuple(sorted(found, key=lambda point: -point.ms))


def _notes(points: Sequence[RooflinePoint], works: Sequence[OpCost], peaks: Peaks) -> tuple[str, ...]:
    notes = [f"FLOPs and bytes: {METHOD}. Bytes are the least that an operation can move."]
    if missing := sorted({cost.device for cost in works if peaks.of(cost.device) is None}):
        notes.append(f"No peaks of {', '.join(missing)} could be measured: what ran there is left out.")
    unknown = sorted({cost.op for cost in works if cost.flops is None}, key=str)
    if unknown:
        notes.append(f"Cost not known: {', '.join(unknown[:5])}{' and others' if len(unknown) > 5 else ''}.")
    if any(point.attained > TOO_FAST and point.share > 0.01 for point in points):
        notes.append(
            "Some operations were faster than the peaks: those were measured on a busy machine, or the data was in the caches. "
            "Run %accel peaks --again."
        )
    return tuple(notes)


def _point_dict(point: RooflinePoint) -> dict[str, Any]:
    return asdict(point) | {
        "flops_per_s": point.flops_per_s, "bytes_per_s": point.bytes_per_s, "intensity": point.intensity,
        "attained": point.attained,
    }  # fmt: skip
