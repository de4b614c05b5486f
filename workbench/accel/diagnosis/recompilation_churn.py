"""A compiled function is compiled again and again, because something that its graph assumed keeps changing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.compilation import Compilation, Recompilation

OFTEN = 3  # the second graph of a function, for a varying size, is how torch.compile means it to be

# Parts of what dynamo says of a guard that failed, and what then helps.
REMEDIES = (
    (("size mismatch", ".size()", "stride mismatch", "dynamic shape"),
     "Mark the size that varies with torch._dynamo.mark_dynamic(x, 0), compile with dynamic=True, or keep batches equal "
     "(drop_last=True, padding)."),
    (("GLOBAL_STATE", "global_state", "grad_mode", ".training"),
     "Compile one function for training and another for validation, so that each keeps its mode."),
    (("dtype mismatch", "requires_grad mismatch", "device mismatch"),
     "Give the function tensors of one dtype, device and requires_grad."),
)  # fmt: skip
OTHERWISE = "Pass what changes from call to call as a tensor, or keep it out of the compiled function."


def recompilation_churn(evidence: Evidence) -> Finding | None:
    """Many recompilations in one run, or a function that torch gave up on after too many."""
    compilation = evidence.profile.compilation
    if compilation is None or not compilation.recompilations:
        return None
    times = sum(again.count for again in compilation.recompilations)
    if times < OFTEN and not compilation.reached_limit:
        return None
    share = _share(evidence, compilation, times)
    worst = max(compilation.recompilations, key=lambda again: again.count)
    in_cell = worst.filename == evidence.workload.filename
    gave_up = " torch then gave up on it and runs it without compiling." if compilation.reached_limit else ""
    return Finding(
        kind="recompilation_churn",
        title=f"Compiled {times} times again: {percent(share)} of the cell",
        what=f"{worst.function}() was compiled for what it saw first, and again each time that changed.{gave_up}",
        share=share,
        evidence=(*(_told(again) for again in compilation.recompilations[:3]),
                  f"{compilation.graphs} graphs, {compilation.compile_s:.3g} s of compiling in all"),
        prediction=amdahl(
            f"of the whole cell; compiling again, {percent(share)} of it, goes, or at the least half of it does",
            Part(share, 2.0, GONE, GONE),
            of="cell",
        ),
        suggests=(),
        remedy=_remedy(worst.reason),
        wrong_when="each variant is used often enough to earn its compiling back, as with a few fixed sizes in a long run.",
        line=worst.line if in_cell else 0,
        details={"recompilations": float(times), "compile_s": compilation.compile_s},
    )  # fmt: skip


def _share(evidence: Evidence, compilation: Compilation, times: int) -> float:
    """Of the cell: what steps that compiled took above the median; where no steps tell, the graphs' part of compiling."""
    late_ms = sum(ms for _, ms in evidence.profile.whole_run.late_compiling)
    if not late_ms:
        late_ms = compilation.compile_s * 1e3 * times / max(compilation.graphs, times)
    return evidence.of_cell(late_ms)


def _told(again: Recompilation) -> str:
    return f"{again.function}() at {again.place}, {again.count} times: {again.reason}"


def _remedy(reason: str) -> str:
    return next((remedy for parts, remedy in REMEDIES if any(part in reason for part in parts)), OTHERWISE)
