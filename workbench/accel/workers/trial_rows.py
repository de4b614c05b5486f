"""What a trial knows of one plan, as a row of the ladder: from its standings in the two stages."""

from __future__ import annotations

from collections.abc import Sequence

from accel.accelerations.plan import Plan
from accel.measuring.comparison import Comparison, Quality, Verdict
from accel.measuring.quality import compare_losses
from accel.workers.stage import Standing, median_ms


def comparison_of(
    plan: Plan, steady: Standing | None, notebook: Standing | None, *, floor: Sequence[float | None]
) -> Comparison:
    """The row of a plan; a standing is None for a stage that has not begun, `floor` are the losses of the noise floor."""
    known = notebook if notebook and notebook.shown else steady
    first = steady if steady and steady.samples else notebook
    return Comparison(
        plan=str(plan),
        verdict=_verdict(steady, notebook),
        headline=notebook.shown if notebook else None,
        steady=steady.shown if steady and not plan.needs_own_process else None,
        quality=_quality(plan, first, floor),
        effect=plan.effect,
        proofs=_proofs(notebook) or _proofs(steady),
        baseline_ms=median_ms(known.base_samples) if known and known.samples else float("nan"),
        candidate_ms=median_ms(known.samples) if known and known.samples else float("nan"),
        first_step_s=max((s.first_step_s for s in first.samples), default=float("nan"))
        if first
        else float("nan"),
        notes=_notes(plan, steady, notebook),
    )


def _quality(plan: Plan, standing: Standing | None, floor: Sequence[float | None]) -> Quality:
    if standing is None or not standing.samples:
        return Quality("unknown")
    return compare_losses(
        standing.base_samples[0].losses, standing.samples[0].losses, floor, effect=plan.effect
    )


def refused_row(plan: str, why: str) -> Comparison:
    """A plan that cannot work here keeps its place on the ladder, with the reasons."""
    return Comparison(
        plan, "undecided", None, None, Quality("unknown"), "exact", state="not applicable", error=why
    )


def in_steady_worker(plan: Plan) -> str:
    """The plan without what a steady worker has anyway; empty when nothing else is in it."""
    for name in [entry.name for entry in plan.entries if entry.needs_own_process]:
        plan = plan.without(name)
    return str(plan) if plan.entries else ""


def _verdict(steady: Standing | None, notebook: Standing | None) -> Verdict:
    """Of the interval that the reader sees: as the notebook runs where that was measured, else under a steady allocator."""
    deciding = notebook if notebook is not None and notebook.shown is not None else steady
    return (deciding.verdict if deciding else None) or "undecided"


def _proofs(standing: Standing | None) -> tuple[tuple[str, bool, str], ...]:
    return standing.samples[-1].proofs if standing and standing.samples else ()


def _notes(plan: Plan, steady: Standing | None, notebook: Standing | None) -> tuple[str, ...]:
    notes = []
    if (
        steady
        and notebook
        and notebook.verdict
        and steady.verdict != notebook.verdict
        and not plan.needs_own_process
    ):
        notes.append(
            f"under a steady allocator: {steady.verdict}, {steady.shown}. As this notebook runs, processes of the same program "
            "differ by several per cent; keep steady_allocator as well to have the tight figure."
        )
    if any(entry.layer == "data" for entry in plan.entries):
        notes.append("a median step: starting the loader's workers, once an epoch, is not in it")
    if notebook and notebook.samples:
        base, own = notebook.base_samples[-1], notebook.samples[-1]
        if base.steps and own.steps and base.minor_faults / base.steps > 500:
            faults = [each.minor_faults // each.steps for each in (base, own)]
            notes.append(f"page faults per step: {faults[0]:,} baseline, {faults[1]:,} with the plan")
    first = steady if steady and steady.samples else notebook
    if first and first.samples and first.samples[0].first_step_s > 5 and "compile" in str(plan):
        notes.append(f"the first step took {first.samples[0].first_step_s:.0f} s (compilation)")
    return tuple(notes)
