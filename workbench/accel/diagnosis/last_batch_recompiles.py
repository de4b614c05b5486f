"""The last, smaller batch of an epoch makes a compiled model compile again."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence


def last_batch_recompiles(evidence: Evidence) -> Finding | None:
    """Graphs were compiled in the last step of an epoch, whose batch is smaller than the others."""
    late = evidence.profile.whole_run.late_compiling
    if evidence.step_loader is None or evidence.workload.accumulation > 1:
        return None
    name, loader = evidence.step_loader
    rest, reasons = _rest(loader), _size_reasons(evidence)
    if rest is None or not reasons or len(loader) < 2:  # of an epoch of one step, each step is the last
        return None
    at_the_end = [ms for number, ms in late if (number + 1) % len(loader) == 0]
    return _finding(evidence, name, loader, rest, sum(at_the_end), reasons[0]) if at_the_end else None


def _size_reasons(evidence: Evidence) -> list[str]:
    """Guards on a tensor's size that failed, as dynamo says it; other guards fail at any step."""
    compilation = evidence.profile.compilation
    found = compilation.recompilations if compilation is not None else ()
    return [again.reason for again in found if "size" in again.reason]


def _rest(loader: Any) -> int | None:
    """Samples of the last batch where it is smaller; None where all are equal, or where the loader does not tell."""
    if loader.drop_last or not loader.batch_size or not isinstance(loader.dataset, Sized):
        return None
    return len(loader.dataset) % loader.batch_size or None


def _finding(evidence: Evidence, name: str, loader: Any, rest: int, ms: float, reason: str) -> Finding:
    share = evidence.of_cell(ms)
    return Finding(
        kind="last_batch_recompiles",
        title=f"The last batch is smaller and compiles again: {percent(share)} of the cell",
        what=f"{name} gives batches of {loader.batch_size} and a last one of {rest} samples; for its shape the compiled "
        "model was compiled once more.",
        share=share,
        evidence=(f"{len(loader.dataset)} samples in batches of {loader.batch_size} leave {rest}, drop_last=False",
                  f"steps that compiled at the end of an epoch took {ms:.3g} ms more than the median", reason),
        prediction=amdahl(
            f"of the whole cell; compiling for the last batch, {percent(share)} of it, goes. It is paid once a process: "
            "over more epochs it is less",
            Part(share, 1.0, GONE, GONE),
            of="cell",
        ),
        suggests=(),
        remedy=f"Build {name} with drop_last=True, or compile with dynamic=True from the start.",
        wrong_when="every sample has to be seen in each epoch, or the cell runs so long that compiling once more does not "
        "matter. With dynamic=True all batches run a graph for varying shapes, which can be slower.",
        line=evidence.line_where(lambda node: getattr(getattr(node, "func", None), "id", "") == "DataLoader"),
        details={"samples_in_last_batch": float(rest)},
    )  # fmt: skip
