"""What a trial knows of one plan, as a row of the ladder: from its standings in the two stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from accel.errors import AccelError, RankError, Reason, first_line, in_words
from accel.measuring.break_even import BreakEven, break_even, setup_seconds
from accel.measuring.comparison import (
    MANY_FAULTS,
    TOO_FEW_EPOCHS,
    Comparison,
    Interval,
    OpenBecause,
    PeakOf,
    Quality,
    Verdict,
    compare_losses,
)
from accel.measuring.per_sample import differ, usual
from accel.plans.plan import Plan
from accel.workers.samples import LONGEST_PASS_S
from accel.workers.stage import Standing, median_ms

_FAULT_S = 1e-6  # a page fault, at most: 0.25 µs on bare metal, up to 1 µs in a virtual machine
_APART = 1.03  # an end of an interval that lies further from another one is worth a word
STARTING_S = 0.05  # assumed seconds to start and end one loader worker; forking alone takes 5 to 30 ms
_LEAST_APPLYING_S = 0.01  # less goes without saying
_SHOWN = (
    3  # recompilations and graph breaks, those that came most often; a profile of the cell lists them all
)


def comparison_of(
    plan: Plan, steady: Standing | None, notebook: Standing | None, *, floor: Sequence[float | None],
    compiled_s: float = 0.0,
) -> Comparison:  # fmt: skip
    """The row of a plan; a standing is None for a stage that has not begun, `floor` are the losses of the noise floor.

    `compiled_s` is what compiling took elsewhere, where the code was not on disk yet.
    """
    known = notebook if notebook and notebook.shown else steady
    first = steady if steady and steady.samples else notebook
    quality = _quality(plan, first, floor)
    peak_bytes, peak_of = peaks_of(known)
    stages = [each for each in (steady, notebook) if each]
    here = _here(plan, steady, notebook)
    open_because, time_decides = _open_because(plan, steady, notebook, here)
    verdict = "undecided" if open_because else _verdict(steady, notebook)
    cost = _cost(known, stages, verdict, compiled_s)
    return Comparison(
        plan=str(plan),
        verdict=verdict,
        headline=notebook.shown if notebook else None,
        steady=steady.shown if steady and not plan.needs_own_process else None,
        quality=quality,
        effect=plan.effect,
        proofs=_proofs(notebook) or _proofs(steady),
        baseline_ms=median_ms(known.base_samples) if known and known.samples else float("nan"),
        candidate_ms=median_ms(known.samples) if known and known.samples else float("nan"),
        first_step_s=max((s.first_step_s for s in first.samples), default=float("nan"))
        if first
        else float("nan"),
        setup_s=cost.setup_s if cost else float("nan"),
        break_even_steps=cost.steps if cost else None,
        notes=(
            *_notes(plan, steady, notebook),
            *_drawn_elsewhere(plan, quality),
            *_compiling(plan, steady, notebook, cost),
            *_applied(steady, notebook),
        ),
        samples_per_step=_samples_per_step(known),
        peak_bytes=peak_bytes,
        peak_of=peak_of,
        page_faults=_page_faults(notebook),
        here=here,
        environment=plan.start.environment,
        how_to_keep=how_to_keep(plan),
        open_because=open_because,
        time_decides=time_decides,
    )


def how_to_keep(plan: Plan) -> str:
    """What to do to have a plan that a running process cannot take, in a sentence; empty where it can."""
    if plan.started and plan.group is None:
        return f"Make a kernel that starts with it: %accel keep {plan} --as-kernel NAME."
    return plan.how_to_run


def _page_faults(notebook: Standing | None) -> tuple[float, float] | None:
    """A step's, of the baseline and of the plan, in the last relaunch."""
    if notebook is None or not notebook.samples:
        return None
    base, own = notebook.base_samples[-1], notebook.samples[-1]
    if not base.steps or not own.steps:
        return None
    return base.minor_faults / base.steps, own.minor_faults / own.steps


def _here(plan: Plan, steady: Standing | None, notebook: Standing | None) -> Interval | None:
    """From the speed-up where each step maps its memory anew, as in a fresh process, to that where none does.

    Which of them a process shows is luck, by what lies on top of its heap: on one MLP, whose fresh process takes 1,500 to 3,000
    page faults a step, a notebook took 2,000 or none after the same cells; of eight fresh processes of an LSTM seven took 1,500
    and one none. A steady allocator takes none.
    """
    if notebook is None or notebook.shown is None or not notebook.samples:
        return None
    faults, fresh = _page_faults(notebook), notebook.shown
    held = steady.shown if steady else None
    if not in_steady_worker(plan):  # of the allocator alone: nothing is left to gain where memory is held
        held = Interval(1.0, 1.0, 1.0, 0, 0)
    if held is None or faults is None or faults[0] < MANY_FAULTS:
        return None
    low, high = min(fresh.low, held.low), max(fresh.high, held.high)
    if low * _APART > fresh.low and high < fresh.high * _APART and not low < 1 <= fresh.low:
        return None
    return Interval(math.sqrt(low * high), low, high, fresh.relaunches, fresh.pairs)


def peaks_of(standing: Standing | None) -> tuple[tuple[int, int] | None, PeakOf]:
    """Of the baseline and of the plan: the most in any relaunch, and what it is of."""
    if standing is None or not standing.samples:
        return None, ""
    sides = [list(side) for side in (standing.base_samples, standing.samples)]
    tensors = [max(each.tensor_bytes for each in side) for side in sides]
    if all(tensors):
        return (tensors[0], tensors[1]), "tensors"
    resident = [max(each.resident_bytes for each in side) for side in sides]
    return ((resident[0], resident[1]), "resident") if all(resident) else (None, "")


def _samples_per_step(standing: Standing | None) -> tuple[int, int] | None:
    """Of a usual step of both sides, if they differ."""
    if standing is None or not standing.samples:
        return None
    base, own = standing.base_samples[-1].every_step_samples, standing.samples[-1].every_step_samples
    return (round(usual(base)), round(usual(own))) if differ(base, own) else None


def _quality(plan: Plan, standing: Standing | None, floor: Sequence[float | None]) -> Quality:
    if standing is None or not standing.samples:
        return Quality("not measured")
    if _samples_per_step(standing):
        return Quality("other batches")
    return compare_losses(
        standing.base_samples[0].losses, standing.samples[0].losses, floor, effect=plan.effect
    )


def refused_row(plan: str, reasons: Sequence[Reason]) -> Comparison:
    """A plan that cannot work here keeps its place on the ladder, with the reasons."""
    why = in_words(reasons)
    return Comparison(
        plan, "undecided", None, None, Quality("not measured"), "exact", state="not applicable", error=why
    )


def why_failed(error: BaseException) -> str:
    """What a row says of a plan that failed; of several ranks, which one caused it.

    >>> why_failed(RankError(1, "A trial", because="it was killed by SIGKILL", do="Try again."))
    'rank 1: it was killed by SIGKILL. Try again.'
    """
    if not isinstance(error, AccelError):
        return f"{type(error).__name__}: {first_line(error)}"
    rank = f"rank {error.rank}: " if isinstance(error, RankError) else ""
    return f"{rank}{error.because}. {error.do}"


def in_steady_worker(plan: Plan) -> Plan:
    """The plan without what a steady worker has anyway; empty when nothing else is in it."""
    for name in [entry.name for entry in plan.entries if entry.needs_own_process]:
        plan = plan.without(name)
    return plan


def _verdict(steady: Standing | None, notebook: Standing | None) -> Verdict:
    """The verdict on the interval shown: under the notebook's allocator if that was measured, else under a steady one."""
    deciding = _deciding(steady, notebook)
    if deciding is None or deciding.verdict is None:
        return "undecided"
    is_unconfirmed = deciding is steady and notebook is not None and deciding.verdict == "faster"
    return "undecided" if is_unconfirmed else deciding.verdict


def _deciding(steady: Standing | None, notebook: Standing | None) -> Standing | None:
    """The standing whose interval a user reads; None before there is one."""
    return next((each for each in (notebook, steady) if each is not None and each.shown is not None), None)


def _open_because(
    plan: Plan, steady: Standing | None, notebook: Standing | None, here: Interval | None
) -> tuple[OpenBecause, bool]:
    """Why a plan is undecided whatever its interval, and whether more relaunches may change that."""
    deciding = _deciding(steady, notebook)
    if deciding is None or deciding.shown is None:
        return "", False
    if _is_in_first_epoch(plan, deciding):
        step_ms = max(median_ms(deciding.samples), median_ms(deciding.base_samples))
        return "first epoch", 2 * deciding.samples[-1].pass_steps * step_ms / 1e3 <= LONGEST_PASS_S
    if deciding.verdict != "faster":
        return "", False
    if here is not None and here.low < 1:
        held = steady.shown if steady is not None else None
        return "heap", held is not None and held.ratio > 1
    needed = 1 + _starting(plan, deciding)
    return ("starting", deciding.shown.ratio > needed) if deciding.shown.low <= needed else ("", False)


def _starting(plan: Plan, standing: Standing) -> float:
    """Share of an epoch spent starting the plan's workers, if the times leave it out; else 0."""
    workers = sum(getattr(entry, "n", 0) for entry in plan.entries if _starts_workers(entry))
    workers -= standing.samples[-1].baseline_workers if standing.samples else 0
    if workers <= 0 or _times_epochs(standing) or not standing.samples[-1].epoch_steps:
        return 0.0
    own, base = standing.samples[-1], standing.base_samples[-1]
    # The first step also waits for the first batch, as each epoch's first step does.
    seen_s = 0.0 if plan.compiles else own.first_step_s - base.first_step_s
    return max(workers * STARTING_S, seen_s) / (own.epoch_steps * median_ms(standing.samples) / 1e3)


def _is_in_first_epoch(plan: Plan, standing: Standing) -> bool:
    """Whether the plan gains only from the second epoch on, and neither warmed up for one epoch nor ran for two in all."""
    own = standing.samples[-1]
    is_warm = 0 < own.pass_steps <= own.warm_up_steps
    return (
        plan.gains_from_second_epoch
        and not is_warm
        and own.warm_up_steps + own.steps < max(2 * own.pass_steps, 1)
    )


def may_be_slower_where_not_measured(plan: Plan, notebook: Standing | None) -> bool:
    """Whether a plan that is faster in fresh processes may be slower in a process that keeps a step's memory mapped.

    Such a process has none of these page faults: that saves up to `_FAULT_S` for each, of the baseline and of the plan.
    """
    faults = _page_faults(notebook)
    if notebook is None or notebook.shown is None or faults is None or faults[0] < MANY_FAULTS:
        return False
    base_s, own_s = median_ms(notebook.base_samples) / 1e3, median_ms(notebook.samples) / 1e3
    fault_s = min(_FAULT_S, 0.9 * base_s / faults[0], 0.9 * own_s / max(faults[1], 1.0))
    held = ((base_s - fault_s * faults[0]) / (own_s - fault_s * faults[1])) / (base_s / own_s)
    return bool(in_steady_worker(plan)) and notebook.shown.low > 1 > notebook.shown.low * held


def _starts_workers(entry: Any) -> bool:
    """Whether each epoch starts worker processes for it."""
    return entry.layer == "data" and getattr(entry, "n", 0) > 0 and not getattr(entry, "persistent", False)


def _proofs(standing: Standing | None) -> tuple[tuple[str, bool, str], ...]:
    """Those of the last relaunch that read them: one that was cut short has none."""
    relaunches = reversed(standing.samples) if standing else ()
    return next((each.proofs for each in relaunches if each.proofs), ())


def _notes(plan: Plan, steady: Standing | None, notebook: Standing | None) -> tuple[str, ...]:
    notes = []
    if (
        steady
        and notebook
        and notebook.verdict == "undecided"
        and steady.verdict == "faster"
        and not plan.needs_own_process
    ):
        notes.append(
            "processes of one program differ by several per cent as this notebook runs, by 1 % with steady_allocator: "
            f"%accel try {plan}+steady_allocator tells more"
        )
    known = [each for each in (notebook, steady) if each is not None and each.samples][:1]
    if any(map(_starts_workers, plan.entries)) and not all(map(_times_epochs, known)):
        notes.append(
            "the timed steps do not cover whole epochs, so they leave out the time to start the loader's workers in each epoch"
        )
    if known and _is_in_first_epoch(plan, known[0]):
        notes.append(TOO_FEW_EPOCHS)
    if "no_grad_validation" in plan.names and not all(map(_times_epochs, known)):
        notes.append(
            "a median step: validation, which comes once an epoch, is not in it; nor is the memory it saves"
        )
    if (faults := _page_faults(notebook)) and faults[0] > MANY_FAULTS:
        notes.append(f"page faults per step: {faults[0]:,.0f} baseline, {faults[1]:,.0f} with the plan")
    return tuple(notes)


def _times_epochs(standing: Standing) -> bool:
    return all(each.times_epochs for each in standing.samples)


def _drawn_elsewhere(plan: Plan, quality: Quality) -> list[str]:
    """Why losses part although every sample is trained on as before."""
    if quality.following != "drifts" or "loader_workers" not in plan.names:
        return []
    return [
        "loader_workers leaves losses equal where a data set always gives the same sample for an index. Random augmentation "
        "draws other numbers in worker processes; --until or --train-s compares what is learnt."
    ]


def _cost(
    shown: Standing | None, stages: Sequence[Standing], verdict: Verdict, compiled_s: float
) -> BreakEven | None:
    """What the plan costs before it helps, of the relaunch that paid most: later ones find compiled code on disk."""
    if shown is None or not shown.samples:
        return None
    base_ms = median_ms(shown.base_samples)
    saved_s = (base_ms - median_ms(shown.samples)) / 1000
    setup_s = max(
        setup_seconds(own.warm_up_s, base.warm_up_s, steps=own.warm_up_steps, saved_s=saved_s)
        for standing in stages
        for own, base in zip(
            standing.samples, standing.base_samples, strict=False
        )  # another thread may be adding one
    )
    return break_even(max(setup_s, compiled_s), base_ms, shown.shown, verdict)


def _compiling(
    plan: Plan, steady: Standing | None, notebook: Standing | None, cost: BreakEven | None
) -> list[str]:
    """When compiling pays off, and what it did: graphs, recompilations with their guard, breaks with their line."""
    if cost is None or not plan.compiles:
        return []
    samples = [each for standing in (steady, notebook) if standing for each in standing.samples]
    found = [each.compilation for each in samples if each.compilation is not None]
    if not found:
        return []
    most = max(found, key=lambda each: each.compile_s)
    notes = [cost.sentence("for compiling and the first steps"), most.line]
    notes += map(str, [*most.recompilations[:_SHOWN], *most.graph_breaks[:_SHOWN], *most.notes])
    if all(each.from_cache >= each.graphs for each in found):
        notes.append("compiled code was on disk already: where it is not, compiling takes longer than here")
    return notes


def _applied(*standings: Standing | None) -> list[str]:
    """What it costs to apply the plan to objects that the cell builds."""
    samples = [each for standing in standings if standing for each in standing.samples]
    seconds = max((each.applied_s for each in samples), default=0.0)
    if seconds < _LEAST_APPLYING_S:
        return []
    return [
        f"applying the plan to what the cell builds took {seconds:.2g} s, once each run of the cell: not in the steps"
    ]
