"""What the ranks of a trial's group answer, as the one answer of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from accel.workers.messages import EffectRead, Evaluated, StepsDone


def joined(answers: Sequence[Any], cpus: Sequence[Sequence[int]], notes: Sequence[str] = ()) -> Any:
    """One answer for all ranks, in the order of ranks; `cpus` are those that each was seen to have, `notes` what is to be
    known of them.

    >>> joined([StepsDone([9], [0.5], [16], 0), StepsDone([7], [0.7], [16], 0)], [(0,), (1,)]).wall_ns
    [9]

    A step takes as long as on its slowest rank and trains on the samples of all; its loss is the mean over these samples.
    """
    first = answers[0]
    if isinstance(first, StepsDone):
        return _steps(answers)
    if isinstance(first, EffectRead):
        proofs = zip(*(each.proofs for each in answers), strict=True)
        resident_bytes = sum(each.resident_bytes for each in answers)  # of all ranks together
        tensor_bytes = [each.tensor_bytes for each in answers]
        return EffectRead(
            [_proof(of_ranks, cpus, notes) for of_ranks in proofs], first.compilation, resident_bytes,
            sum(tensor_bytes) if all(tensor_bytes) else 0,
        )  # fmt: skip
    if isinstance(first, Evaluated):  # all ranks have the same model
        return msgspec.structs.replace(first, seconds=max(each.seconds for each in answers))
    return first


def _steps(answers: Sequence[StepsDone]) -> StepsDone:
    samples = list(zip(*(each.samples for each in answers), strict=True))
    losses = zip(*(each.losses for each in answers), strict=True)
    return StepsDone(
        wall_ns=[max(of_ranks) for of_ranks in zip(*(each.wall_ns for each in answers), strict=True)],
        losses=[_mean(of_ranks, weights) for of_ranks, weights in zip(losses, samples, strict=True)],
        samples=[sum(of_ranks) if all(of_ranks) else 0 for of_ranks in samples],
        minor_faults=sum(each.minor_faults for each in answers),
        cell_ended=answers[0].cell_ended,
        apart_ns=[max(of_ranks) for of_ranks in zip(*(each.apart_ns for each in answers), strict=True)],
    )


def _mean(losses: Sequence[float | None], samples: Sequence[int]) -> float | None:
    """Over all samples; over ranks where a rank's samples are not known."""
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses):
        return None
    weights = samples if all(samples) else [1] * len(known)
    return sum(loss * weight for loss, weight in zip(known, weights, strict=True)) / sum(weights)


def _proof(
    of_ranks: Sequence[tuple[str, bool, str]], cpus: Sequence[Sequence[int]], notes: Sequence[str]
) -> tuple[str, bool, str]:
    """It took effect if it did so on every rank; else the first rank on which it did not tells why."""
    missing = next((rank for rank, (_, took, _) in enumerate(of_ranks) if not took), None)
    name, took, evidence = of_ranks[missing or 0]
    if missing is not None:
        return name, False, f"rank {missing}: {evidence}"
    if name == "ddp" and all(cpus):
        places = ", ".join(f"rank {rank} on CPU {','.join(map(str, own))}" for rank, own in enumerate(cpus))
        evidence = " ".join([f"{evidence}; {places}{'.' if notes else ''}", *notes])
    return name, took, evidence
