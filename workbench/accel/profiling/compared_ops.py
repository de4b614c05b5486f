"""Operations of two profiles side by side, by phase and module; a compiled graph stands for the modules it swallowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from accel.profiling.attribution import COMPILED
from accel.workload.module_names import module_path

if TYPE_CHECKING:
    from accel.profiling.op_cost import OpCost
    from accel.profiling.op_table import OpRow
    from accel.profiling.profile_data import ProfileData

Change = Literal["appeared", "vanished", "faster", "slower", "alike"]
CLEAR_RATIO = 1.25  # single runs of one small operation differ by a tenth or two without any cause
LEAST_SHARE = 0.005


@dataclass(frozen=True)
class OpChange:
    """One operation in one phase and module, before and after: per step, in the profiled steps of two runs.

    Times are of the work itself: of the kernels where it ran on a GPU, else its own time on the CPU.
    "faster" and "slower" need a quarter of its time and half a percent of the step's; less is "alike". `before_dtype`
    and `after_dtype` are known where both profiles were taken with `--shapes`.
    """

    op: str
    phase: str
    module: str
    change: Change
    before_ms: float
    after_ms: float
    before_calls: float
    after_calls: float
    before_share: float
    after_share: float
    before_dtype: str = ""
    after_dtype: str = ""

    @property
    def difference_ms(self) -> float:
        """Negative when it takes less time than before."""
        return self.after_ms - self.before_ms

    @property
    def dtypes(self) -> str:
        """ "float32 → bfloat16", where it is known and differs."""
        if not self.before_dtype or not self.after_dtype or self.before_dtype == self.after_dtype:
            return ""
        return f"{self.before_dtype} → {self.after_dtype}"


class _Key(NamedTuple):
    op: str
    phase: str
    module: str


class _Sum(NamedTuple):
    ms: float = 0.0
    calls: float = 0.0
    share: float = 0.0


def compare_ops(before: ProfileData, after: ProfileData) -> tuple[OpChange, ...]:
    """Every operation of either, the greatest difference first."""
    old_rows, new_rows = _comparable_rows(before, after), _comparable_rows(after, before)
    fold = _fold(old_rows + new_rows)
    old, new = _sums(old_rows, fold), _sums(new_rows, fold)
    old_dtypes, new_dtypes = _dtypes(before.costs, fold), _dtypes(after.costs, fold)
    least_ms = LEAST_SHARE * max(_total(old), _total(new))
    changes = (
        OpChange(
            *key, _change(old.get(key), new.get(key), least_ms),
            (was := old.get(key, _Sum())).ms, (now := new.get(key, _Sum())).ms,
            was.calls, now.calls, was.share, now.share, old_dtypes.get(key, ""), new_dtypes.get(key, ""),
        )
        for key in old | new
    )  # fmt: skip
    return tuple(sorted(changes, key=lambda change: -abs(change.difference_ms)))


# In a trace that accel did not record, forward includes the loss.
WITH_LOSS = {"loss": "forward", "forward → loss": "forward", "loss → backward": "forward → backward"}


def name_modules_alike(before: ProfileData, after: ProfileData) -> bool:
    """Whether modules can be compared: a trace names none, or after their classes, and no name of it is in a profile."""
    modules = [{row.module for row in profile.rows} - {""} for profile in (before, after)]
    is_trace = "trace" in (before.timing.whole, after.timing.whole)
    return not is_trace or not any(modules) or not modules[0].isdisjoint(modules[1])


def _comparable_rows(profile: ProfileData, other: ProfileData) -> tuple[OpRow, ...]:
    """The rows without what a trace does not tell of the other: modules, and which part of forward is the loss."""
    rows = profile.rows
    if not name_modules_alike(profile, other):
        rows = tuple(replace(row, module="") for row in rows)
    if other.timing.whole == "trace" and "loss" not in {row.phase for row in other.rows}:
        rows = tuple(replace(row, phase=WITH_LOSS.get(row.phase, row.phase)) for row in rows)
    return rows


def _fold(rows: Iterable[OpRow]) -> Callable[[str], str]:
    """Module → the compiled module it lies in, in either profile; others stay.

    A compiled root "(Net)" swallows every module that is named from a root, a compiled "head" its "head.…".
    """
    marker = f"{COMPILED} in "
    compiled = {row.module[len(marker) :] for row in rows if row.module.startswith(marker)}

    def fold(module: str) -> str:
        own = module[len(marker) :] if module.startswith(marker) else module
        is_inside = [root for root in compiled if own == root or own.startswith(module_path(root) + ".")]
        if is_inside:
            return min(is_inside, key=len)
        roots = [root for root in compiled if root.startswith("(")]
        return roots[0] if len(roots) == 1 and own and not own.startswith(("(", COMPILED)) else own

    return fold


def _sums(rows: Iterable[OpRow], fold: Callable[[str], str]) -> dict[_Key, _Sum]:
    sums: dict[_Key, _Sum] = {}
    for row in rows:
        key = _Key(row.op, row.phase, fold(row.module))
        ms, calls, share = sums.get(key, _Sum())
        sums[key] = _Sum(ms + (row.device_ms or row.self_ms), calls + row.calls, share + row.share)
    return sums


def _total(sums: dict[_Key, _Sum]) -> float:
    return sum(one.ms for one in sums.values())


def _dtypes(costs: Iterable[OpCost], fold: Callable[[str], str]) -> dict[_Key, str]:
    """The types of an operation's first tensor, several joined."""
    found: dict[_Key, set[str]] = {}
    for cost in costs:
        found.setdefault(_Key(cost.op, cost.phase, fold(cost.module)), set()).add(cost.dtype)
    return {key: ", ".join(sorted(dtypes - {""})) for key, dtypes in found.items()}


def _change(was: _Sum | None, now: _Sum | None, least_ms: float) -> Change:
    if was is None:
        return "appeared"
    if now is None:
        return "vanished"
    low, high = sorted((was.ms, now.ms))
    if high - low < least_ms or high < CLEAR_RATIO * low:
        return "alike"
    return "faster" if now.ms < was.ms else "slower"
