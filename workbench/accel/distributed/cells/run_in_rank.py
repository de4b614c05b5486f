"""One run in a rank: take what was shipped, join the group, run the cell or the function, and send home what became of it."""

from __future__ import annotations

import functools
import gc
import linecache
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psutil

from accel.distributed.cells.brought_home import Travellers
from accel.distributed.cells.cell_execution import Prepare, execute_cell
from accel.distributed.cells.launched_cell import LaunchedCell
from accel.distributed.cells.plan_in_rank import PlanInRank
from accel.distributed.data_parallel.data_parallel import DataParallel, RunStopped
from accel.distributed.data_parallel.gradient_readers import codes_of
from accel.distributed.data_parallel.split_loaders import names_ranks
from accel.distributed.data_parallel.training_notes import notes_of_unwrapped
from accel.distributed.ranks.process_group import is_communication_error, process_group
from accel.distributed.ranks.rank_environment import take_environment
from accel.distributed.ranks.rank_messages import RunDone, RunFailed, RunRequest
from accel.distributed.ranks.rank_output import END_OF_OUTPUT
from accel.distributed.ranks.rank_page import PHASES, RankPage
from accel.distributed.trials.rank_quality import quality_in_rank
from accel.private_disk import PrivateDisk, note_of
from accel.processes.channel import Channel, Closed
from accel.processes.failure import failure_of
from accel.processes.process_tree import living_descendants
from accel.workers.notebook_module import NotebookModule
from accel.workload.memory_file import MemoryFile
from accel.workload.shipping import dump, unpack


def run_in_rank(
    channel: Channel, request: RunRequest, blob: bytes, memory: MemoryFile, page: RankPage, rank: int,
    disk: PrivateDisk | None = None,
) -> None:  # fmt: skip
    """Run a request and answer it; whatever the user's code raises is an answer too."""
    threads, streams = set(threading.enumerate()), (sys.stdout, sys.stderr)
    with _own_surroundings():
        _run_and_answer(channel, request, blob, memory, page, rank, threads, streams, disk)


@contextmanager
def _own_surroundings() -> Iterator[None]:
    """Variables of the environment and filters of warnings are, after a run, what they were before it."""
    environment = dict(os.environ)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


def _run_and_answer(
    channel: Channel, request: RunRequest, blob: bytes, memory: MemoryFile, page: RankPage, rank: int,
    threads: set[threading.Thread], streams: tuple[Any, Any], disk: PrivateDisk | None,
) -> None:  # fmt: skip
    try:
        done, result, result_memory = _run(request, blob, memory, page, rank, disk)
    except Closed:
        raise
    except BaseException as error:
        page.write(rank, phase=PHASES.index("failed"))
        failed = failure_of(error, request.filename)
        is_communication, has_left = is_communication_error(error), isinstance(error, SystemExit)
        del error
        is_clean = _ended(streams) and _is_clean(threads) and not has_left  # exit() closes the standard input
        is_clean = (
            is_clean and request.backend != "ccl" and disk is None
        )  # what oneCCL has begun cannot be called back
        channel.send(RunFailed(failed, is_communication, is_clean))
        return
    page.write(rank, phase=PHASES.index("done"))
    done = msgspec.structs.replace(done, is_clean=_ended(streams) and _is_clean(threads) and done.is_clean)
    channel.send(done, result, None if result_memory is None else result_memory.descriptor)
    if result_memory is not None:
        result_memory.close()


def _ended(streams: tuple[Any, Any]) -> bool:
    """Write the mark that ends the output; False where the run closed it. Streams that the run replaced are put back."""
    try:
        for stream in {sys.stdout, sys.stderr} - {None}:
            stream.flush()
        sys.stdout, sys.stderr = streams
        print(END_OF_OUTPUT, flush=True)
    except (OSError, ValueError):
        sys.stdout, sys.stderr = streams
        return False
    return True


def _run(
    request: RunRequest, blob: bytes, memory: MemoryFile, page: RankPage, rank: int, disk: PrivateDisk | None
) -> tuple[RunDone, bytes, MemoryFile | None]:
    began = time.monotonic()
    launched = LaunchedCell(rank=rank, world_size=page.ranks, timeout_s=request.options.timeout_s)
    namespace = _arrived(request, blob, memory, disk)
    travellers = None if request.options.discard else Travellers(namespace, request.names)
    was_stopped, value, parallel = False, None, None
    with (
        launched,
        process_group(
            request.backend, request.rendezvous, rank=rank, world_size=page.ranks, timeout_s=request.options.timeout_s,
        ) as group,
        PlanInRank(request, namespace) as plan,
    ):  # fmt: skip
        codes = codes_of(request.source, request.filename, namespace)
        launched.begins(group, name=request.filename, codes=codes)
        if request.trains:
            parallel = DataParallel(
                page, rank=rank, world_size=page.ranks, namespace=namespace, options=request.options,
                plan=plan.plan, knows_ranks=names_ranks(codes), prepare=functools.partial(_prepare, request, plan),
            )  # fmt: skip
            launched.on_join = parallel.only_watch
            try:
                with parallel:
                    value = _execute_with_checkpoints(request, namespace, parallel, page.ranks, rank)
            except RunStopped:
                was_stopped = True
        else:
            value = _execute(request, namespace)
        proofs, compilation = plan.proofs(), plan.compilation
        if not request.options.discard:
            plan.gather_pieces()
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
        is_clean=not group.is_stuck and disk is None,
    )  # fmt: skip
    return done, result, result_memory


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
    sys.modules["__main__"] = NotebookModule(namespace)
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


def _execute_with_checkpoints(
    request: RunRequest, namespace: dict[str, Any], parallel: DataParallel, ranks: int, rank: int
) -> Any:
    if not request.options.checkpoint:
        return _execute(request, namespace)
    from accel.distributed.checkpoints.checkpoints import Checkpoints

    with Checkpoints(request, parallel, namespace, rank=rank, world_size=ranks) as checkpoints:
        value = _execute(request, namespace, checkpoints.prepared)
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


def _prepare(request: RunRequest, plan: PlanInRank, found: Any) -> None:
    """What is done with each object before its first use."""
    if request.options.sync_batchnorm:
        for model in found.models.values():
            _synchronise_batch_norm(model)
    plan.take(found)


def _synchronise_batch_norm(model: Any) -> None:
    import torch

    for name, child in list(model.named_children()):
        converted = torch.nn.SyncBatchNorm.convert_sync_batchnorm(child)  # type: ignore[no-untyped-call]
        if converted is not child:
            setattr(model, name, converted)


_KEPT = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "torch._inductor",
    "torch/_inductor",
)


def _is_clean(threads_before: set[threading.Thread]) -> bool:
    """Whether the run left neither a process nor a thread: then the rank can be used again."""
    sys.modules["__main__"] = sys.modules["accel.distributed.ranks.rank_main"]
    sys.last_traceback = sys.last_value = sys.last_type = None
    if _nothing_is_left(threads_before):
        return True
    gc.collect()  # takes long, and is needed only where something hangs on to a loader's iterator
    return _nothing_is_left(threads_before)


def _nothing_is_left(threads_before: set[threading.Thread]) -> bool:
    left = [each for each in threading.enumerate() if each not in threads_before and not _is_of_library(each)]
    multiprocessing.active_children()  # waits for those that have ended
    return not left and not any(_is_of_cell(each) for each in living_descendants())


def _is_of_library(thread: threading.Thread) -> bool:
    """A daemon that a library keeps for the whole process, as tqdm its monitor."""
    of = getattr(thread, "_target", None) or type(thread)
    return thread.daemon and str(of.__module__).partition(".")[0] in ("tqdm", "torch")


def _is_of_cell(process: psutil.Process) -> bool:
    """Not one that Python or torch keeps next to this process for later use."""
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return not any(each in words for each in _KEPT)
