"""What a rank does with a request: take what was shipped, join the others, run the cell, pack what became of it."""

from __future__ import annotations

import functools
import linecache
import os
import sys
import time
from contextlib import nullcontext
from typing import Any

from accel.distributed.cells.brought_home import Travellers
from accel.distributed.cells.cell_execution import Prepare, execute_cell
from accel.distributed.cells.launched_cell import LaunchedCell
from accel.distributed.cells.plan_in_rank import PlanInRank
from accel.distributed.cells.values_of_ranks import RankValues, values_of_ranks
from accel.distributed.cells.whole_files import saving_whole_files
from accel.distributed.data_parallel.data_parallel import DataParallel
from accel.distributed.data_parallel.gradient_readers import codes_of
from accel.distributed.data_parallel.parted import RanksParted, RunStopped
from accel.distributed.data_parallel.split_loaders import names_ranks
from accel.distributed.data_parallel.training_notes import notes_of_unwrapped
from accel.distributed.first_step.first_step import first_step_in_rank
from accel.distributed.ranks.process_group import process_group
from accel.distributed.ranks.rank_environment import take_environment
from accel.distributed.ranks.rank_messages import RunDone, RunRequest
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_place import RankPlace
from accel.distributed.trials.rank_quality import quality_in_rank
from accel.private_disk import PrivateDisk, note_of
from accel.workload.memory_file import MemoryFile
from accel.workload.notebook_module import give_display
from accel.workload.shipping import dump, unpack


def carry_out(
    request: RunRequest, blob: bytes, memory: MemoryFile, page: RankPage, place: RankPlace, store: Any,
    disk: PrivateDisk | None = None,
) -> tuple[RunDone, bytes, MemoryFile | None]:  # fmt: skip
    """Train what was shipped as one of the ranks that meet by this store; what is to go home is a pickle with its memory.

    >>> done, blob, memory = carry_out(request, blob, memory, page, RankPlace.of_one_machine(0, 2), store)

    Raises what the cell raises.
    """
    began, rank = time.monotonic(), place.rank
    launched = LaunchedCell(place, timeout_s=request.options.timeout_s)
    namespace = _arrived(request, blob, memory, disk)
    travellers = None if request.options.discard else Travellers(namespace, request.names)
    was_stopped, value, parallel = False, None, None
    with (
        launched,
        process_group(
            request.backend, store, rank=rank, world_size=page.ranks, timeout_s=request.options.timeout_s,
        ) as group,
        PlanInRank(request, namespace) as plan,
        saving_whole_files(rank) if page.ranks > 1 else nullcontext(),
    ):  # fmt: skip
        codes = codes_of(request.source, request.filename, namespace)
        launched.begins(group, name=request.filename, codes=codes)
        if request.trains:
            parallel = _parallel(request, namespace, plan, codes, page, rank)
            launched.on_join = parallel.only_watch
            value, was_stopped = _trained(request, namespace, parallel, page.ranks, rank)
        else:
            value = _execute(request, namespace)
        proofs, compilation = plan.proofs(), plan.compilation
        if not request.options.discard:
            plan.gather_pieces()
        values = _values(request, namespace, travellers, parallel)
    quality, why_no_quality = _quality(request, namespace, parallel, rank)
    notes = [
        *(parallel.notes if parallel is not None else []),
        *launched.notes,
        *(notes_of_unwrapped(namespace, request.writes) if travellers is not None else ()),
        *filter(None, [group.note, note_of(disk.mechanism, request.folder) if disk is not None else ""]),
    ]
    first_step_s = parallel.first_step_at - began if parallel is not None and parallel.steps else None
    result, result_memory = b"", None
    left_behind: list[list[str]] = []
    if request.kind == "function" and not request.options.discard:
        result_memory = MemoryFile()
        result = dump(value, result_memory)
        result_memory.seal()
    elif travellers is not None and rank == 0:
        stepped = parallel.stepped if parallel is not None else set()
        result, result_memory, left_behind = travellers.packed(namespace, request.writes, stepped)
    done = RunDone(
        seconds=time.monotonic() - began, first_step_s=first_step_s, notes=notes, left_behind=left_behind, proofs=proofs,
        compilation=compilation, was_stopped=was_stopped, backend=launched.backend,
        distributes_itself=parallel is not None and parallel.only_watches,
        communication=parallel.communication if parallel is not None else None, quality=quality, quality_reason=why_no_quality,
        values=values, is_clean=not group.is_stuck and disk is None,
        first_step=parallel.check if parallel is not None else None,
    )  # fmt: skip
    return done, result, result_memory


def _parallel(
    request: RunRequest, namespace: dict[str, Any], plan: PlanInRank, codes: Any, page: RankPage, rank: int
) -> DataParallel:
    first_step = first_step_in_rank(
        request, rank, page.ranks, beat=lambda: page.add(rank, beats=1), warn=_warn
    )
    return DataParallel(
        page, rank=rank, world_size=page.ranks, namespace=namespace, options=request.options, plan=plan.plan,
        knows_ranks=names_ranks(codes), prepare=plan.take, first_step=first_step,
        words=page.words(rank, request.options.timeout_s) if page.ranks > 1 else None,
    )  # fmt: skip


def _warn(line: str) -> None:
    """Where the cell prints, at once; it stands in the result too."""
    print(f"accel: {line}", flush=True)


def _arrived(
    request: RunRequest, blob: bytes, memory: MemoryFile, disk: PrivateDisk | None
) -> dict[str, Any]:
    """What was shipped, where the notebook is: with its folder, its variables and its settings."""
    import torch

    os.chdir(request.folder)
    if disk is not None:
        _make_private(disk, request)
    sys.path[:] = request.import_path
    take_environment(request.environment)
    threads = _own_threads()
    try:
        namespace = unpack(blob, memory)
    finally:
        memory.close()
    torch.set_num_threads(threads)  # the notebook's count came with its settings
    give_display(namespace)
    return namespace


def _make_private(disk: PrivateDisk, request: RunRequest) -> None:
    """Checkpoints are the run's own, and all ranks meet in one folder: these stay as they are."""
    shared = [os.path.dirname(request.rendezvous)]
    if request.options.checkpoint:
        os.makedirs(request.options.checkpoint, exist_ok=True)
        shared.append(os.path.abspath(request.options.checkpoint))
    disk.enter(
        "A run on copies", "Move that line to a cell of its own and run this one again.", shared=shared
    )


def _values(
    request: RunRequest,
    namespace: dict[str, Any],
    travellers: Travellers | None,
    parallel: DataParallel | None,
) -> list[RankValues]:
    """Which numbers of what goes home are one rank's; of a cell that distributes its training itself, that is known."""
    import torch.distributed as dist

    if parallel is None or travellers is None or parallel.only_watches or not dist.is_initialized():
        return []
    if dist.get_world_size() == 1:
        return []
    return values_of_ranks(travellers.plain_changes(namespace, request.writes), request.source)


def _quality(
    request: RunRequest, namespace: dict[str, Any], parallel: DataParallel | None, rank: int
) -> tuple[float | None, str]:
    """How good the model became, where that is asked for: rank 0 says so."""
    if request.question is None or parallel is None or rank != 0:
        return None, ""
    return quality_in_rank(request.question, namespace, parallel.models, parallel.stepped, parallel.beat)


@functools.cache
def _own_threads() -> int:
    """As many as torch counted when this rank began; asked before the first run may have set another."""
    import torch

    return torch.get_num_threads()


def _trained(
    request: RunRequest, namespace: dict[str, Any], parallel: DataParallel, ranks: int, rank: int
) -> tuple[Any, bool]:
    """What a function gave, and whether all ranks stopped before the end."""
    try:
        with parallel:
            return _execute_with_checkpoints(request, namespace, parallel, ranks, rank), False
    except RunStopped as stop:
        if isinstance(stop, RanksParted):
            parallel.notes.insert(0, stop.after(parallel.steps))
        return None, True


def _execute_with_checkpoints(
    request: RunRequest, namespace: dict[str, Any], parallel: DataParallel, ranks: int, rank: int
) -> Any:
    if not request.options.checkpoint:
        value = _execute(request, namespace)
        parallel.ends()
        return value
    from accel.distributed.checkpoints.checkpoints import Checkpoints

    with Checkpoints(request, parallel, namespace, rank=rank, world_size=ranks) as checkpoints:
        value = _execute(request, namespace, checkpoints.prepared)
        parallel.ends()
        checkpoints.finish()
        return value


def _execute(request: RunRequest, namespace: dict[str, Any], prepared: Prepare | None = None) -> Any:
    if request.kind == "function":
        function, arguments, keywords = namespace.pop("accel_call")
        return function(*arguments, **keywords)
    linecache.cache[request.filename] = (
        len(request.source), None, request.source.splitlines(True), request.filename,
    )  # fmt: skip
    execute_cell(request.source, request.filename, namespace, prepared)
    return None
