"""The answer of a trial for one plan: a ratio with its interval, a verdict, and whether the loss still follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["faster", "slower", "no difference", "undecided"]
Following = Literal["same", "follows", "drifts", "unknown", "other batches"]


@dataclass(frozen=True)
class Interval:
    """A speed-up (time of the baseline over time of the candidate: above 1 is faster) with its 95 % interval."""

    ratio: float
    low: float
    high: float
    relaunches: int
    pairs: int  # of blocks of steps, one of the baseline with one of the candidate

    def __str__(self) -> str:
        return f"{self.ratio:.2f}× [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Quality:
    """How a candidate's losses compare with the baseline's, step by step, against the measured noise floor."""

    following: Following
    largest_difference: float = float("nan")
    noise_floor: float = float("nan")
    steps: int = 0

    def __str__(self) -> str:
        if self.following == "unknown":
            return "no scalar loss was seen, so quality was not compared"
        if self.following == "other batches":
            return "steps train on other batches, so their losses are not comparable; compare the quality reached (--until)"
        if self.following == "same":
            return f"losses bit-equal over {self.steps} steps"
        says = "loss follows the baseline" if self.following == "follows" else "LOSS DRIFTS from the baseline"
        size = (
            f"largest relative difference {self.largest_difference:.1e}, noise floor {self.noise_floor:.1e}"
        )
        return f"{says} ({size}, {self.steps} steps)"


@dataclass(frozen=True)
class Comparison:
    """One plan against the baseline.

    `steady` was measured with a steady allocator in both processes: tight, it tells plans apart. `headline` holds for the
    notebook as it runs (its own allocator), over relaunches; it is what a user reads, and the verdict is its. Where it is
    None, the verdict is of `steady` and the sentence says so. `baseline_ms` and `candidate_ms` are always of a step.
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

    @property
    def sentence(self) -> str:
        """The answer in one sentence, as a user reads it."""
        if self.state in ("failed", "not applicable"):
            return f"{self.state}: {self.error}"
        shown = self.headline or self.steady
        if shown is None:
            waits = {"waiting": "waiting", "measuring": "measuring …", "confirming": "confirming …"}
            return waits.get(self.state, "stopped before it was decided")
        where = " per sample" if self.samples_per_step else ""
        where += "" if self.headline else " under a steady allocator"
        words = {
            "faster": f"{shown} faster{where}",
            "slower": f"slower: {shown} of the baseline's speed{where}",
            "no difference": f"no difference found{where}: {shown}",
            "undecided": f"undecided{where}: {shown}",
        }
        return words[self.verdict]
