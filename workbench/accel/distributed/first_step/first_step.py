"""Where a training takes its first step: ranks wait there for one process that takes the same one, and compare."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NoReturn

from accel.distributed.data_parallel.lineages import Lineages
from accel.distributed.first_step.rank_draws import RankDraws, digests, hashed_samples
from accel.distributed.first_step.recorded_step import MOST_BATCHES, RecordedStep, loaded, save, save_imports
from accel.distributed.first_step.verdict import FirstStepCheck, compared
from accel.errors import AccelError, first_line
from accel.workload.exchanged_values import from_all_ranks, from_first_rank
from accel.workload.generators import generator_states

if TYPE_CHECKING:
    from accel.distributed.ranks.rank_messages import RunRequest

PATIENCE_S = 5.0  # a check that takes longer is not waited for, where it is not strict
_BETWEEN_LOOKS_S = 0.002


def first_step_in_rank(
    request: RunRequest,
    rank: int,
    world_size: int,
    *,
    beat: Callable[[], object],
    warn: Callable[[str], object],
) -> FirstStep | None:
    """What a request asks for: nothing, to compare, or to take the step that the ranks compare with.

    >>> first_step_in_rank(request, rank=0, world_size=2, beat=lane.beat, warn=print)
    """
    if not request.reference:
        return None
    if request.stands_for:
        return FirstStepAlone(request.reference, request.stands_for)
    is_strict = request.options.check == "strict"
    most_s = 0.5 * request.options.timeout_s  # the other ranks wait in an exchange
    patience_s = most_s if is_strict else min(PATIENCE_S, most_s)
    return FirstStepOfRanks(
        request.reference, rank, world_size, is_strict=is_strict, patience_s=patience_s, beat=beat, warn=warn
    )


class FirstStepOfRanks:
    """In a rank. Rank 0 compares; all ranks wait for its verdict, and `check` has it.

    >>> first = FirstStepOfRanks(path, 0, 2, is_strict=False, patience_s=5.0, beat=lane.beat, warn=print)
    >>> first.begins(optimizer); optimizer.step(); first.is_over([model])
    >>> first.check.verdict
    'equal'
    """

    def __init__(
        self, path: str, rank: int, world_size: int, *, is_strict: bool, patience_s: float,
        beat: Callable[[], object], warn: Callable[[str], object],
    ) -> None:  # fmt: skip
        self.lineages = Lineages(rank)
        self.check: FirstStepCheck | None = None
        self._path, self._rank, self._world_size = path, rank, world_size
        self._is_strict, self._patience_s, self._beat, self._warn = is_strict, patience_s, beat, warn
        self._step = RecordedStep()
        self._drawn_alone: list[
            dict[str, str]
        ] = []  # `digests` of the generators that one process used for each rank
        self._samples_alone: list[Any] = []  # `hashed_samples` of one process's batches

    def took(self, batch: Any) -> None:
        """The loop goes on with this batch, which may be one of the first step."""
        if self.check is None and len(self._step.samples) < MOST_BATCHES:
            self._step.samples.append(hashed_samples(batch))

    def begins(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        if self.check is None and any(
            hasattr(p, "full_tensor") for group in optimizer.param_groups for p in group["params"]
        ):
            self.is_not("the parameters are spread over the ranks")
        if self._rank == 0 and self.check is None:
            self._step.begins(optimizer)

    def is_not(self, reason: str) -> None:
        """There is no step to compare."""
        self.check = self.check or FirstStepCheck("not checked", reason=reason)

    def is_over(self, models: Iterable[Any]) -> None:
        """Compare, and warn before the run goes on; raises AccelError where the steps differ and the check is strict."""
        if self.check is not None:
            return
        self.check = check = self._agreed(list(models))
        if self._is_strict and check.verdict != "equal":
            raise AccelError(
                "%%accel ddp --check strict", because=f"{check.line[0].lower()}{check.line[1:].rstrip('.')}",
                do="Your objects are unchanged. To train anyway, use --check on, which only warns, or --check off.",
            )  # fmt: skip
        if check.verdict == "different" and self._rank == 0:
            self._warn(check.line)

    def _agreed(self, models: list[Any]) -> FirstStepCheck:
        """Rank 0's verdict, sent to all ranks.

        "different" becomes "not checked" if ranks had other samples or drew other random numbers than one process, unless the
        loss is a sum.
        """
        check = _from_rank_0(self._compared_or_why_not(models) if self._rank == 0 else None)
        if check.verdict != "different" or check.is_sum:
            return check
        drawn = from_all_ranks([digests(generator_states()), self._step.samples])
        return _from_rank_0(self._unless_drawn_otherwise(check, drawn) if self._rank == 0 else None)

    def _unless_drawn_otherwise(self, check: FirstStepCheck, drawn: Sequence[Any]) -> FirstStepCheck:
        """The check, or "not checked" if a rank had other samples or drew other random numbers than one process for that rank."""
        compared = [self._compared_samples(samples, rank) for rank, (_, samples) in enumerate(drawn)]
        if others := [f"rank {rank}" for rank, pairs in enumerate(compared) if "values" in pairs]:
            return FirstStepCheck(
                "not checked", waited_s=check.waited_s,
                reason=f"on {' and '.join(others)} the data set gave other values than in one process for the same samples. "
                "Likely cause: its transforms draw random numbers from a generator of their own",
            )  # fmt: skip
        others = [
            f"rank {rank}"
            for rank, ((mine, _), alone) in enumerate(zip(drawn, self._drawn_alone, strict=True))
            if any(mine[kind] != alone[kind] for kind in mine.keys() & alone.keys())
        ]
        if not others:
            return check
        is_padded = any("sizes" in pairs for pairs in compared)
        padding = (
            ". Likely cause: each rank pads its samples to its own longest one, so dropout masks have other sizes than in "
            "one process"
        )
        return FirstStepCheck(
            "not checked", waited_s=check.waited_s,
            reason=f"the cell draws random numbers, and on {' and '.join(others)} they differ from the numbers that one process "
            f"draws for the same samples{padding if is_padded else ''}",
        )  # fmt: skip

    def _compared_samples(self, samples: Sequence[Any], rank: int) -> set[str]:
        """What differs between a rank's batches and its parts of one process's batches: "sizes" (padding), or "values"."""
        return {
            "values" if mine[0] == alone[0] else "sizes"
            for own, parts in zip(samples, self._samples_alone, strict=False)
            if own and rank < len(parts)
            for mine, alone in zip(own[0], parts[rank], strict=False)
            if mine and alone and mine != alone
        }

    def _compared_or_why_not(self, models: list[Any]) -> FirstStepCheck:
        try:
            return self._compared(models)
        except Exception as error:  # the other ranks wait for a verdict, and the run is worth more than it
            return FirstStepCheck(
                "not checked", reason=f"comparing raised {type(error).__name__}: {first_line(error)}"
            )

    def _compared(self, models: list[Any]) -> FirstStepCheck:
        began = time.monotonic()
        self._step.ends_here()
        while not os.path.exists(self._path):
            if time.monotonic() > began + self._patience_s:
                return FirstStepCheck(
                    "not checked", waited_s=time.monotonic() - began,
                    reason=f"one process needed over {self._patience_s:.0f} s more than the ranks for that step; --check "
                    "strict waits for that process",
                )  # fmt: skip
            self._beat()
            time.sleep(_BETWEEN_LOOKS_S)
        one = loaded(self._path)
        waited_s = time.monotonic() - began
        if isinstance(one, str):
            return FirstStepCheck("not checked", reason=one, waited_s=waited_s)
        self._drawn_alone, self._samples_alone = one.generators, one.samples
        check = compared(
            self._step,
            one,
            world_size=self._world_size,
            normalises_batches=any(map(_normalises_batches, models)),
        )
        return replace(check, waited_s=waited_s)


class FirstStepAlone:
    """In the one process: the step is written to a file, and the process ends.

    >>> FirstStepAlone(path, ranks=2)
    """

    def __init__(self, path: str, ranks: int) -> None:
        self.lineages: RankDraws = RankDraws(ranks)
        self.check: FirstStepCheck | None = None
        self._path, self._step = path, RecordedStep()

    def took(self, batch: Any) -> None:
        """The loop goes on with this batch."""
        if len(self._step.samples) < MOST_BATCHES:
            self._step.samples.append(self.lineages.hashed(batch))

    def begins(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        self._step.begins(optimizer)

    def is_not(self, reason: str) -> NoReturn:
        """There is no step to compare."""
        save(reason, self._path)
        os._exit(0)

    def is_over(self, models: Iterable[Any]) -> NoReturn:
        """Write the step down."""
        self._step.generators = self.lineages.finish()
        self._step.draws, self._step.lowest_bytes = self.lineages.unlike, self.lineages.lowest_bytes
        self._step.ends_here()
        save(self._step, self._path)
        save_imports(self._path)
        os._exit(0)


FirstStep = FirstStepOfRanks | FirstStepAlone


def _from_rank_0(check: FirstStepCheck | None) -> FirstStepCheck:
    return FirstStepCheck(**from_first_rank(asdict(check) if check is not None else None))


def _normalises_batches(model: Any) -> bool:
    from torch.nn.modules.batchnorm import _BatchNorm

    return any(
        isinstance(each, _BatchNorm) and each.training and type(each).__name__ != "SyncBatchNorm"
        for each in model.modules()
    )
