"""One run in a warm rank: carry it out, answer the kernel, and leave the process as it was, or say that it is not."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psutil

from accel.distributed.cells.carrying_out import carry_out
from accel.distributed.ranks.process_group import is_communication_error, met_at_file
from accel.distributed.ranks.rank_messages import RunFailed, RunRequest
from accel.distributed.ranks.rank_output import END_OF_OUTPUT
from accel.distributed.ranks.rank_page import PHASES, RankPage
from accel.distributed.ranks.rank_place import RankPlace
from accel.private_disk import PrivateDisk
from accel.processes.channel import Channel, Closed
from accel.processes.failure import failure_of
from accel.processes.process_tree import living_descendants
from accel.workload.memory_file import MemoryFile


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
        place, store = RankPlace.of_one_machine(rank, page.ranks), met_at_file(request.rendezvous, page.ranks)
        done, result, result_memory = carry_out(request, blob, memory, page, place, store, disk)
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
