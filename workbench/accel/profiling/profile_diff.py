"""ProfileDiff: what is different between two profiles of the same training, and what replaced what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.profiling.compared_ops import CLEAR_RATIO, LEAST_SHARE, OpChange, compare_ops, name_modules_alike
from accel.profiling.profile_data import ProfileData, none_for_nan
from accel.shown import Drawn

if TYPE_CHECKING:
    import pandas


LEAST_COMMON = 5  # operations, to speak of most of them
CAUTION = (
    "Two separate runs: the machine may have been slower or faster in one of them. "
    "Which operations came and went is certain; for a proof of the speed use %accel try."
)


@dataclass(frozen=True)
class PhaseChange:
    """A phase, or the gap between two, before and after: ms per step, 0 where it is not."""

    name: str
    before_ms: float
    after_ms: float


@dataclass(frozen=True)
class Replacement:
    """In one phase and module some operations are gone and others are new: what compile, autocast or IPEX really did."""

    phase: str
    module: str
    vanished: tuple[OpChange, ...]
    appeared: tuple[OpChange, ...]

    @property
    def before_ms(self) -> float:
        """Time per step of what is gone."""
        return sum(change.before_ms for change in self.vanished)

    @property
    def after_ms(self) -> float:
        """Time per step of what is new."""
        return sum(change.after_ms for change in self.appeared)


@dataclass(frozen=True)
class ProfileDiff(Drawn):
    """Two profiles side by side.

    >>> difference = eager.diff(compiled)
    >>> print(difference)
    >>> difference.replacements[0].vanished[0].op
    'aten::max_pool2d_with_indices'
    >>> difference.figure(); difference.to_dataframe()      # one row per (phase, module, operation)

    Times are per step. `changes` has every operation of either, the greatest difference first; a module that was compiled
    on one side stands for all modules inside it on both, for in a compiled graph there are none.
    """

    before_ms: float
    after_ms: float
    before_spread_ms: tuple[float, float]
    after_spread_ms: tuple[float, float]
    unit: str
    phases: tuple[PhaseChange, ...]
    changes: tuple[OpChange, ...]
    notes: tuple[str, ...]
    machine_line: str

    @property
    def ratio(self) -> float:
        """How many times as fast a step was after, in these two runs; NaN without steps."""
        return self.before_ms / self.after_ms if self.after_ms else float("nan")

    @property
    def is_told_apart(self) -> bool:
        """Whether the middle halves of the step times do not overlap."""
        (low, high), (other_low, other_high) = self.before_spread_ms, self.after_spread_ms
        return high < other_low or other_high < low

    @property
    def replacements(self) -> tuple[Replacement, ...]:
        """Phases and modules in which operations both vanished and appeared, the most time first."""
        places = dict.fromkeys((change.phase, change.module) for change in self.changes)
        found = (
            Replacement(*place, *(self._at(place, kind) for kind in ("vanished", "appeared")))
            for place in places
        )
        replaced = [one for one in found if one.vanished and one.appeared]
        return tuple(sorted(replaced, key=lambda one: -one.before_ms - one.after_ms))

    def _at(self, place: tuple[str, str], kind: str) -> tuple[OpChange, ...]:
        return tuple(one for one in self.changes if one.change == kind and (one.phase, one.module) == place)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what is not known is None."""
        values = asdict(self) | {"ratio": none_for_nan(self.ratio), "is_told_apart": self.is_told_apart}
        for name in ("before_ms", "after_ms"):
            values[name] = none_for_nan(values[name])
        for name in ("before_spread_ms", "after_spread_ms"):
            values[name] = [none_for_nan(value) for value in values[name]]
        return values | {"replacements": [asdict(one) for one in self.replacements]}

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per (phase, module, operation), the greatest difference first."""
        import pandas

        return pandas.DataFrame(
            [asdict(change) for change in self.changes], columns=list(OpChange.__dataclass_fields__)
        )


def compare_profiles(before: ProfileData, after: ProfileData) -> ProfileDiff:
    """What `before.diff(after)` gives; AccelError where `after` is no profile."""
    if not isinstance(after, ProfileData):
        raise AccelError(
            "profile.diff",
            because=f"it compares with another profile, and was given {type(after).__name__}",
            do="Keep one with %%accel profile -o before, the other with -o after: before.diff(after).",
        )
    changes = compare_ops(before, after)
    return ProfileDiff(
        before_ms=before.step_ms,
        after_ms=after.step_ms,
        before_spread_ms=before.spread_ms,
        after_spread_ms=after.spread_ms,
        unit=after.timing.unit,
        phases=_phases(before, after),
        changes=changes,
        notes=(*_differences(before, after), *_drift(changes), CAUTION),
        machine_line=after.machine_line,
    )


def _phases(before: ProfileData, after: ProfileData) -> tuple[PhaseChange, ...]:
    old, new = ({phase.name: phase.ms for phase in profile.phases} for profile in (before, after))
    both = (PhaseChange(name, old.get(name, 0.0), new.get(name, 0.0)) for name in old | new)
    return tuple(sorted(both, key=lambda phase: -max(phase.before_ms, phase.after_ms)))


def _drift(changes: Sequence[OpChange]) -> Iterator[str]:
    """When unchanged operations are faster or slower as well, that is no effect of one operation.

    Looked at are operations that ran as often and in the same type before and after, those of half a percent and more.
    """
    largest = [
        c for c in changes if c.before_ms and c.after_ms and max(c.before_share, c.after_share) >= LEAST_SHARE
    ]
    same = [c.after_ms / c.before_ms for c in largest if c.before_calls == c.after_calls and not c.dtypes]
    if len(same) < LEAST_COMMON or 1 / CLEAR_RATIO < (common := median(same)) < CLEAR_RATIO:
        return
    yield (
        f"Most operations that ran as often and in the same type as before took {common:.2g} times as long: "
        "rather the machine, or a setting of the whole process, than a change of one operation."
    )


def _differences(before: ProfileData, after: ProfileData) -> list[str]:
    """What makes the two hard to compare, the gravest first."""
    notes = []
    if before.timing.unit != after.timing.unit:
        notes.append(f"The first is timed by {before.timing.unit}, the second by {after.timing.unit}.")
    if before.accumulation != after.accumulation:
        notes.append(
            f"A step has {before.accumulation} batches in the first, {after.accumulation} in the second."
        )
    if "trace" in (before.timing.whole, after.timing.whole):
        notes.append("A trace does not tell its processor: whether both are from one machine is not known.")
        if not name_modules_alike(before, after):
            notes.append("They do not name modules alike: operations are compared over all modules.")
    elif before.machine_line != after.machine_line:
        notes.append(f"The first is from another machine: {before.machine_line}")
    for name, version in before.versions:
        if (other := dict(after.versions).get(name, version)) != version:
            notes.append(f"The first was run by {name} {version}, the second by {name} {other}.")
    if before.options != after.options:
        notes.append(
            "They were taken with different options, which cost time of their own in the profiled steps."
        )
    if not before.rows or not after.rows:
        notes.append("One of them has no operations: its own notes say why.")
    return notes
