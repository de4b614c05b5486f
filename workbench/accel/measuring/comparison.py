"""The answer of a trial for one plan: a ratio with its interval, a verdict, and whether the loss still follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from accel.shown_text import where_tried

Verdict = Literal["faster", "slower", "no difference", "undecided"]
OpenBecause = Literal["", "heap", "heap not measured", "starting", "first epoch"]
CHANGES = "changes training"  # the effect of a plan whose losses are others, so that steps tell nothing of its quality
MANY_FAULTS = 500  # a step: about 2 MB that are mapped anew
WIDE = 0.15  # half the width of an interval, as a share: beyond it the ratio in its middle is not claimed
TOO_FEW_EPOCHS = "fewer than two epochs were run, and the plan gains only from the second epoch on"
PeakOf = Literal["tensors", "resident", ""]
Following = Literal["same", "follows", "drifts", "unknown", "other batches", "not measured"]


@dataclass(frozen=True)
class Interval:
    """A speed-up (time of the baseline over time of the candidate: above 1 is faster) with its interval, which holds at 95 %."""

    ratio: float
    low: float
    high: float
    relaunches: int
    pairs: int  # of blocks of steps, one of the baseline with one of the candidate

    @property
    def is_wide(self) -> bool:
        """Whether it says where the speed-up lies too roughly to name one number."""
        return not self.low > 0 or (self.high / self.low) ** 0.5 - 1 > WIDE

    @property
    def carried(self) -> float:
        """The speed-up that can be claimed: of a wide interval beyond 1 the end that is nearer to 1, else the ratio.

        >>> Interval(4.66, 1.17, 18.53, 1, 10).carried
        1.17
        """
        if not self.is_wide:
            return self.ratio
        return self.low if self.low > 1 else self.high if self.high < 1 else self.ratio

    def __str__(self) -> str:
        return f"{self.ratio:.2f}× [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Quality:
    """How a candidate's losses compare with the baseline's, step by step, against the measured noise floor."""

    following: Following
    largest_difference: float = float("nan")
    noise_floor: float = float("nan")
    steps: int = 0
    lost: float = 0.0
    """By how much losses are worse on average, relative to the baseline's; below 0: better."""
    lost_by_noise: float = 0.0
    """The same, of the baseline that was moved by rounding, without its sign."""

    def __str__(self) -> str:
        if self.following == "not measured":
            return "the plan was not measured, so quality was not compared"
        if self.following == "unknown":
            return "no scalar loss was seen, so quality was not compared"
        if self.following == "other batches":
            return "steps train on other batches, so their losses are not comparable; compare the quality reached (--until)"
        if self.following == "same":
            return f"losses bit-equal over {self.steps} steps"
        says = "loss follows the baseline" if self.following == "follows" else "LOSS DRIFTS from the baseline"
        floor = "not measured" if math.isnan(self.noise_floor) else f"{self.noise_floor:.1e}"
        size = f"largest relative difference {self.largest_difference:.1e}, noise floor {floor}"
        return f"{says} ({size}, {self.steps} steps)"

    @property
    def words(self) -> str:
        """The same in a few words.

        >>> Quality("follows", 1e-3, 2e-3, 40).words
        'loss follows'
        """
        return {
            "same": "loss the same", "follows": "loss follows", "drifts": "LOSS DRIFTS", "unknown": "loss not seen",
            "other batches": "loss of other batches", "not measured": "not measured",
        }[self.following]  # fmt: skip

    def allowed(self, share: float) -> str:
        """How much worse losses are on average, next to the share that was allowed.

        >>> Quality("drifts", 0.3, 1e-5, 64, lost=0.25).allowed(0.005)
        'losses are 25 % higher on average, and 0.5 % was allowed'
        """
        if not math.isfinite(self.lost):
            return f"a loss is no number any more, and {100 * share:g} % higher was allowed"
        how = "higher" if self.lost >= 0 else "lower"
        return f"losses are {abs(100 * self.lost):.3g} % {how} on average, and {100 * share:g} % was allowed"


@dataclass(frozen=True)
class Comparison:
    """One plan against the baseline.

    `steady` was measured with a steady allocator in both processes: tight, it tells plans apart. `headline` holds for the
    notebook as it runs (its own allocator), over relaunches; it is what a user reads, and the verdict is its. It is None where
    `steady` showed no difference already, which is the verdict then. `baseline_ms` and `candidate_ms` are always of a step.
    """

    plan: str
    verdict: Verdict
    headline: Interval | None
    steady: Interval | None
    quality: Quality
    effect: str
    proofs: tuple[tuple[str, bool, str], ...] = ()
    baseline_ms: float = float("nan")
    candidate_ms: float = float("nan")
    first_step_s: float = float("nan")
    setup_s: float = float("nan")  # what the first steps took beyond the baseline's: compiling, above all
    break_even_steps: int | None = None  # from so many steps on it is ahead; None: never, or not known
    notes: tuple[str, ...] = ()
    state: Literal["waiting", "measuring", "confirming", "done", "stopped", "failed", "not applicable"] = (
        "done"
    )
    error: str = ""
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    samples_per_step: tuple[int, int] | None = None
    """Of the baseline and of the candidate, where they differ: the intervals are of the time per sample then."""
    peak_bytes: tuple[int, int] | None = None
    """Memory that training took at its peak, without and with the plan; None where it was not counted."""
    peak_of: PeakOf = ""
    """What that is: of "tensors" it is exact; "resident" are pages of the process, some of which may be free."""
    page_faults: tuple[float, float] | None = None
    """Page faults a step, without and with the plan, as the notebook runs; each maps 4 kB of memory anew."""
    here: Interval | None = None
    """The speed-up in a process that holds the memory of a step, as a notebook that has been running may, where that may differ
    from most fresh processes (`headline`), which map it anew in each step."""
    environment: str = ""
    """The environment that the plan ran in; empty for the notebook's own."""
    how_to_keep: str = ""
    """What to do to have the plan where `%accel keep` cannot take it into this process; empty where it can."""
    open_because: OpenBecause = ""
    """A reason, other than its interval, why the plan is undecided; empty if there is none. `heap`: the plan may be slower in a
    process that holds memory, as the notebook does. `heap not measured`: the same, but nothing measured it. `starting`: starting
    the plan's workers may cost more time than its steps save. `first epoch`: the plan gains only from the second epoch on, and
    the trial ran fewer than two epochs."""
    time_decides: bool = False
    """Whether more relaunches may decide the plan despite `open_because`."""

    @property
    def title(self) -> str:
        """The plan, and where it ran if that was not the notebook's own environment.

        >>> Comparison("ipex", "faster", None, None, Quality("same"), "close", environment="intel").title
        'ipex (in intel)'
        """
        return where_tried(self.plan, self.environment)

    @property
    def maps_much(self) -> bool:
        """Whether steps of the cell map so much memory that the state of the allocator shows in their time."""
        return self.page_faults is not None and self.page_faults[0] > MANY_FAULTS

    @property
    def shown(self) -> Interval | None:
        """The one interval that a user reads; None until what is measured will decide the verdict."""
        return self.headline or (self.steady if self.state == "done" else None)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The parts of the plan that did not take effect: what it measured is not their gain."""
        return tuple(name for name, took, _ in self.proofs if not took)

    @property
    def leaves_training(self) -> bool:
        """Whether training stays as it is with the plan, as far as that was seen."""
        return self.effect != CHANGES and self.quality.following not in ("drifts", "other batches")

    @property
    def gain(self) -> str:
        """How much faster it is, or between which ends it lies: in a few words, which claim no more than the interval carries.

        >>> Comparison("a", "faster", Interval(1.93, 1.88, 1.99, 3, 60), None, Quality("same"), "exact").gain
        '1.8 to 2.0× faster'
        """
        if self.shown is None:
            return ""
        if self.may_be_slower_here and self.here is not None:
            ends = f"{self.here.low:.2f} to {self.here.high:.2f}×"
            return f"{_faster(self.shown)}{self._where} in most fresh processes, {ends} in this notebook"
        if self.verdict != "faster":
            return f"between {self.shown.low:.2f}× and {self.shown.high:.2f}×{self._where}"
        here = (
            f" in most fresh processes, perhaps {self.here.low:.2f} to {self.here.high:.2f}× here"
            if self.here
            else ""
        )
        return f"{_faster(self.shown)}{self._where}{here}"

    @property
    def may_be_slower_here(self) -> bool:
        """Whether the plan is undecided because it is faster in fresh processes but may be slower in this notebook."""
        return self.open_because == "heap" and self.here is not None

    @property
    def has_own_allocator(self) -> bool:
        """Whether the plan sets the allocator itself."""
        return "allocator" in self.plan

    @property
    def phrase(self) -> str:
        """The verdict in a few words for a row of its own; the sentence says more.

        >>> Comparison("a", "slower", Interval(0.8, 0.776, 0.82, 3, 60), None, Quality("same"), "exact").phrase
        'slower: 0.78 to 0.82×'
        """
        if self.shown is None or self.state not in ("done", "stopped"):
            return self.sentence
        ends = f"{self.shown.low:.2f} to {self.shown.high:.2f}×"
        if self.here is not None and self.verdict == "undecided" and self._here_words:
            return f"undecided: {self.here.low:.2f} to {self.here.high:.2f}×{self._where} in this notebook"
        here = self.here is not None and self.verdict in ("faster", "slower")
        says = {
            "faster": _faster(self.shown), "slower": f"slower: {ends}", "no difference": f"no difference found: {ends}",
            "undecided": f"undecided: {ends}",
        }  # fmt: skip
        return f"{says[self.verdict]}{self._where}{' in a fresh process' if here else ''}"

    @property
    def sentence(self) -> str:
        """The answer in one sentence, as a user reads it."""
        if self.state in ("failed", "not applicable"):
            return f"{self.state}: {self.error}"
        if self.shown is None:
            waits = {
                "waiting": "waiting",
                "measuring": "measuring …",
                "confirming": "confirming …",
                "done": "not measured",
            }
            return waits.get(self.state, "stopped before it was decided")
        if self.state in ("measuring", "confirming"):
            return f"{_roughly(self.shown)} so far"
        return _verdict_words(self.verdict, self.shown, self._where) + self._here_words

    @property
    def _where(self) -> str:
        where = " per sample" if self.samples_per_step else ""
        return where + (
            "" if self.headline or self.verdict == "no difference" else " under a steady allocator"
        )

    @property
    def _here_words(self) -> str:
        excludes_1 = self.shown is not None and not self.shown.low <= 1 <= self.shown.high
        if self.here is None or self.verdict == "no difference" or not excludes_1:
            return ""
        return (
            f" in a fresh process that maps memory anew in each step, as most do; between {self.here.low:.2f}× and "
            f"{self.here.high:.2f}× in one that holds it, as this notebook may"
        )


def _verdict_words(verdict: Verdict, shown: Interval, where: str) -> str:
    """A verdict in words that say what to expect."""
    ends = f"[{shown.low:.2f}, {shown.high:.2f}]"
    at_most = _rounded_up(shown.high)
    wide_slower = (
        f"slower: at most {at_most}× the baseline's speed"
        if at_most != "1.00"
        else "slower, perhaps by less than 1 %"
    )
    return {
        "faster": f"{_at_least(shown)}{where} {ends}" if shown.is_wide else f"{shown} faster{where}",
        "slower": f"{wide_slower}{where} {ends}"
        if shown.is_wide
        else f"slower: {shown} of the baseline's speed{where}",
        "no difference": f"no difference found{where}: {shown}",
        "undecided": f"undecided{where}: {_roughly(shown)}",
    }[verdict]


def _faster(shown: Interval) -> str:
    return _at_least(shown) if shown.is_wide else _range(shown)


def _at_least(shown: Interval) -> str:
    """What a wide interval beyond 1 carries."""
    low = _rounded_down(shown.low)
    return f"at least {low}× faster" if low != "1.00" else "faster, perhaps by less than 1 %"


def _range(shown: Interval) -> str:
    """The ends of an interval beyond 1, rounded away from its middle.

    >>> _range(Interval(1.17, 1.058, 1.24, 3, 60)), _range(Interval(1.02, 1.001, 1.05, 3, 60))
    ('1.05 to 1.24× faster', 'up to 1.05× faster')
    """
    low, digits = _rounded_down(shown.low), 1 if shown.low >= 1.1 else 2
    high = math.ceil(round(shown.high * 10**digits, 6)) / 10**digits
    return f"up to {high:.{digits}f}× faster" if low == "1.00" else f"{low} to {high:.{digits}f}× faster"


def _roughly(shown: Interval) -> str:
    """An interval without a verdict."""
    return f"between {shown.low:.2f}× and {shown.high:.2f}×" if shown.is_wide else str(shown)


def _rounded_down(low: float) -> str:
    """To a tenth; near 1, where that would leave nothing, to a hundredth.

    >>> _rounded_down(1.29), _rounded_down(1.058)
    ('1.2', '1.05')
    """
    return f"{math.floor(low * 10) / 10:.1f}" if low >= 1.1 else f"{math.floor(low * 100) / 100:.2f}"


def _rounded_up(high: float) -> str:
    """The same from below 1."""
    return f"{math.ceil(high * 10) / 10:.1f}" if high <= 0.9 else f"{math.ceil(high * 100) / 100:.2f}"


_CLOSE_BAND = (
    0.02  # what a low-precision format may move a loss without being called a drift, relative to its scale
)
_UNMEASURED_BAND = 0.001  # for any plan, where there was no time for the noise floor
_FLOOR_FACTOR = 10.0


def largest_difference(baseline: Sequence[float], other: Sequence[float]) -> float:
    """Largest difference of two loss curves over their common steps, relative to the baseline's typical size.

    >>> largest_difference([2.0, 1.0], [2.0, 1.1])
    0.0666...
    """
    steps = min(len(baseline), len(other))
    scale = sum(abs(value) for value in baseline[:steps]) / steps
    return max(abs(a - b) for a, b in zip(baseline[:steps], other[:steps], strict=True)) / (scale or 1.0)


def compare_losses(
    baseline: Sequence[float | None],
    candidate: Sequence[float | None],
    floor: Sequence[float | None] = (),
    *,
    effect: str = "exact",
) -> Quality:
    """Judge a candidate's losses: the same, following (within the floor or, for low-precision formats, the band), or drifting.

    Chaotic networks part from themselves within a few steps when sums are taken in another order, so that a fixed tolerance is
    wrong for some models and blind for others. So the `floor` is measured: the baseline again, with every parameter moved by
    one unit in the last place. Where there was no time for it, a difference of up to a thousandth is no drift: kernels of a
    GPU add up in an order of their own, so that even the same program gives other losses.

    `effect` is the plan's label: "exact", "close" or "changes training". A loss that is not a number where the baseline's
    is one is a drift.
    """
    pairs = [(b, c) for b, c in zip(baseline, candidate, strict=False) if b is not None]
    if not pairs:
        return Quality("unknown")
    if any(c is None for _, c in pairs):
        return Quality("drifts", math.inf, _floor([b for b, _ in pairs], floor), len(pairs), lost=math.inf)
    if all(b == c for b, c in pairs):
        return Quality("same", 0.0, 0.0, len(pairs))
    pairs = pairs[: len(floor) or None]  # where there was no time for as many steps of the floor
    base, other = [b for b, _ in pairs], [c for _, c in pairs if c is not None]
    difference, noise = largest_difference(base, other), _floor(base, floor)
    by_floor = _UNMEASURED_BAND if math.isnan(noise) else _FLOOR_FACTOR * noise
    allowed = max(by_floor, _CLOSE_BAND if effect == "close" else 1e-5)
    nudged = [value for value in floor if value is not None]
    by_noise = abs(_lost(base, nudged)) if nudged else 0.0
    following: Following = "follows" if difference <= allowed else "drifts"
    return Quality(following, difference, noise, len(pairs), _lost(base, other), by_noise)


def _lost(baseline: Sequence[float], other: Sequence[float]) -> float:
    """How much worse losses are on average over the steps that both have, relative to the baseline's."""
    steps = min(len(baseline), len(other))
    base = baseline[:steps]
    return (sum(other[:steps]) - sum(base)) / (sum(map(abs, base)) or 1.0)


def _floor(baseline: Sequence[float], floor: Sequence[float | None]) -> float:
    numbers = [value for value in floor if value is not None]
    return largest_difference(baseline, numbers) if numbers and baseline else math.nan
