"""DistributedDataParallel reduces gradients in every micro-batch of an accumulation, where the last one would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.collectives import Communication, read_communication
from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

# Reducing costs more than its operations show: with one rank on two cores, forward and backward of small models were up to 1.25
# times as fast without it.
UNSEEN = (1.0, 1.05, 1.25)


def ddp_without_no_sync(evidence: Evidence) -> Finding | None:
    """Several backward passes a step, and more than one of them starts an all-reduce."""
    talk = read_communication(evidence.profile.events)
    micro_batches, name = _of_trace(evidence, talk) if evidence.is_of_trace else _of_workload(evidence)
    if micro_batches < 2 or not name or talk is None or not talk.backwards:
        return None
    reducing = talk.reducing / talk.backwards
    if reducing * micro_batches < 1.5:  # one in each step is as it should be
        return None
    step_ms = evidence.traced_step_ms
    needless = 1 - 1 / (reducing * micro_batches)
    exposed = min(0.95, needless * (talk.exposed_ms + talk.bookkeeping_ms) / step_ms)
    whole = min(0.95, needless * (talk.ms + talk.bookkeeping_ms) / step_ms)
    return Finding(
        kind="ddp_without_no_sync",
        title=f"Gradients are reduced in each of {micro_batches} micro-batches: {percent(exposed)} of each step",
        what="DistributedDataParallel sums the gradients of all ranks in every backward. While gradients accumulate only "
        "the last sum is needed.",
        share=exposed,
        evidence=(f"{talk.reducing} of {talk.backwards} profiled backward passes started an all-reduce",
                  f"{talk.calls:.3g} all-reduces and {talk.ms:.3g} ms of communication a step, "
                  f"{talk.exposed_ms:.3g} ms of it with nothing else running"),
        prediction=amdahl(
            f"{percent(needless)} of the all-reduces go away: {percent(exposed)} of the step, or up to "
            f"{percent(max(exposed, whole))} if they also slowed the computation that they overlapped",
            Part(exposed, 2.0, GONE, GONE), Part(max(0.0, whole - exposed), 1.0, 1.0, GONE),
            Part(max(0.0, evidence.share("forward", "backward") - whole) * (evidence.device is None), *UNSEEN),
        ),
        suggests=(),
        remedy=f"Run all micro-batches but the last of a step in `with {name}.no_sync():`, forward and backward both.",
        wrong_when="each micro-batch needs the gradients summed over all ranks, for example to clip them before they are "
        "accumulated.",
        line=evidence.line_where(lambda node: getattr(getattr(node, "func", None), "attr", "") == "backward"),
        details={"micro_batches": float(micro_batches), "reducing_share": reducing},
    )  # fmt: skip


def _of_workload(evidence: Evidence) -> tuple[int, str]:
    """Micro-batches a step, and the name of the model that is a DistributedDataParallel; "" without one."""
    models = evidence.objects.models.items()
    return evidence.workload.accumulation, next((name for name, model in models if _is_ddp(model)), "")


def _of_trace(evidence: Evidence, talk: Communication | None) -> tuple[int, str]:
    """The same from a trace: what DDP's reducer recorded names it, and how many backward passes a step has."""
    if talk is None or not talk.bookkeeping_ms or evidence.profile.events is None:
        return 0, ""
    return round(talk.backwards / evidence.profile.events.kept.steps), "model"


def _is_ddp(model: object) -> bool:
    from torch.nn.parallel import DistributedDataParallel

    return isinstance(model, DistributedDataParallel)
