"""The last, smaller batch of an epoch makes a compiled model compile again."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.finding import Finding
from accel.profiling.report.words import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence


def last_batch_recompiles(evidence: Evidence) -> Finding | None:
    """Graphs were compiled in the last step of an epoch, whose batch is smaller than the others."""
    late = evidence.profile.whole_run.late_compiling
    for name, loader in evidence.objects.loaders.items():
        rest = _rest(loader)
        if rest is None or evidence.workload.accumulation > 1:
            continue
        steps = len(loader)
        at_the_end = [ms for number, ms in late if (number + 1) % steps == 0]
        if at_the_end:
            return _finding(evidence, name, loader, rest, sum(at_the_end))
    return None


def _rest(loader: Any) -> int | None:
    """Samples of the last batch where it is smaller; None where all are equal, or where the loader does not tell."""
    if loader.drop_last or not loader.batch_size or not isinstance(loader.dataset, Sized):
        return None
    return len(loader.dataset) % loader.batch_size or None


def _finding(evidence: Evidence, name: str, loader: Any, rest: int, ms: float) -> Finding:
    share = min(0.99, ms / evidence.profile.timing.cell_ms)
    compilation = evidence.profile.compilation
    reasons = [again.reason for again in compilation.recompilations] if compilation is not None else []
    return Finding(
        kind="last_batch_recompiles",
        title=f"The last batch is smaller and compiles again: {percent(share)} of the cell",
        what=f"{name} gives batches of {loader.batch_size} and a last one of {rest} samples; for its shape the compiled "
        "model was compiled once more.",
        share=share,
        evidence=(f"{len(loader.dataset)} samples in batches of {loader.batch_size} leave {rest}, drop_last=False",
                  f"steps that compiled at the end of an epoch took {ms:.3g} ms more than the median", *reasons[:1]),
        prediction=amdahl(
            f"of the whole cell; compiling for the last batch, {percent(share)} of it, goes. It is paid once a process: "
            "over more epochs it is less",
            Part(share, 1.0, GONE, GONE),
        ),
        suggests=(),
        remedy=f"Build {name} with drop_last=True, or compile with dynamic=True from the start.",
        wrong_when="every sample has to be seen in each epoch, or the cell runs so long that compiling once more does not "
        "matter. With dynamic=True all batches run a graph for varying shapes, which can be slower.",
        line=evidence.line_where(lambda node: getattr(getattr(node, "func", None), "id", "") == "DataLoader"),
        details={"samples_in_last_batch": float(rest)},
    )  # fmt: skip
