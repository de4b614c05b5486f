"""One rank of a job: what `run.py` in the job's folder calls, in a process that a launcher started.

It reads the request from the folder, meets the others, trains, and writes its answer there. No kernel need be alive.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from accel.distributed.jobs.job_folder import JobDescription, JobFolder
from accel.distributed.jobs.job_page import JobPage
from accel.distributed.jobs.launched_place import place_of
from accel.distributed.jobs.meeting import choose_interface, meet
from accel.distributed.jobs.rank_lines import Began, RankLines
from accel.distributed.ranks.rank_messages import RankReady, RunFailed, RunRequest
from accel.distributed.ranks.rank_page import PHASES
from accel.distributed.ranks.rank_place import RankPlace
from accel.errors import AccelError
from accel.processes.starting_mask import unbind

_PR_SET_PDEATHSIG = 1
_CANCELLED = 130  # the exit status
_COUNT_S = 0.1
_GONE_AFTER_LOOKS = 3


def main(path: str) -> None:
    """Run this process's part of the job in a folder; the exit status tells the launcher whether it went well."""
    folder = JobFolder(Path(path))
    description = folder.description()
    place, attempt = place_of(description.cluster.launcher)
    _die_with_launcher()
    _print_into(folder.ranks / f"{place.rank}.txt")
    choose_interface(place, description.cluster)
    request = folder.request()
    try:
        _check_python(description)
        request = msgspec.structs.replace(
            request, environment=folder.environment(),
            import_path=[*request.import_path, *(sys.path if description.cluster.python else [])],
        )  # fmt: skip
        has_gpu = _take_cpus_and_gpu(place, description, request.backend)
        _import_torch()
        went_well = _run(folder, place, attempt, request, has_gpu)
    except BaseException as error:
        _answer_failure(folder, place, attempt, request, error)
        raise
    sys.stdout.flush()
    os._exit(0 if went_well else 1)  # threads of gloo to a host that is gone would hold the process up


def _check_python(description: JobDescription) -> None:
    """Functions of the notebook travel as code of its Python, which no other reads."""
    theirs, ours = description.versions["python"], sys.version.split()[0]
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        raise AccelError(
            f"A rank with Python {ours} on {socket.gethostname()}",
            because=f"the notebook's is {theirs}, and its functions are code of that",
            do="Name another interpreter with python = in accel.toml, or start the notebook with this one.",
        )  # fmt: skip


def _run(folder: JobFolder, place: RankPlace, attempt: int, request: RunRequest, has_gpu: bool) -> bool:
    from accel.distributed.cells.carrying_out import carry_out

    store, attempt = meet(place, attempt, folder)
    request = msgspec.structs.replace(request, backend=_backend(request.backend, place, store, has_gpu))
    page = JobPage(place.world_size, store)
    lines = RankLines(
        folder.ranks / f"{place.rank}.jsonl", lambda: page.lane(place.rank), timeout_s=request.options.timeout_s,
        on_turn=_Ear(folder, page),
    )  # fmt: skip
    folder.write_json(f"ranks/{place.rank}.began.json", _began(place, attempt))
    lines.start()
    try:
        done, blob, memory = carry_out(request, folder.blob(), folder.memory(), page, place, store)
    except BaseException as error:
        page.write(place.rank, phase=PHASES.index("failed"))
        lines.end()
        _answer_failure(folder, place, attempt, request, error)
        return False
    page.write(place.rank, phase=PHASES.index("done"))
    lines.end()
    if lines.trouble:
        note = f"What rank {place.rank} did was not all written: {lines.trouble}."
        done = msgspec.structs.replace(done, notes=[*done.notes, note])
    folder.write_answer(place.rank, attempt, done, blob, memory)
    return True


class _Ear:
    """What the notebook, or another, asks by files in the folder; a folder that was removed asks for the end, too."""

    def __init__(self, folder: JobFolder, page: JobPage) -> None:
        self._folder, self._page, self._missed = folder, page, 0

    def __call__(self) -> None:
        self._missed = 0 if self._folder.script.exists() else self._missed + 1
        if self._folder.wish_to_cancel.exists() or self._missed == _GONE_AFTER_LOOKS:
            os._exit(_CANCELLED)
        if self._folder.wish_to_stop.exists():
            self._page.ask_to_stop()


def _answer_failure(
    folder: JobFolder, place: RankPlace, attempt: int, request: RunRequest, error: BaseException
) -> None:  # fmt: skip
    from accel.distributed.ranks.process_group import is_communication_error
    from accel.processes.failure import failure_of

    failed = RunFailed(failure_of(error, request.filename), is_communication_error(error), is_clean=False)
    print(failed.failed.traceback or failed.failed.message, file=sys.stderr, flush=True)
    folder.write_answer(place.rank, attempt, failed)


def _began(place: RankPlace, attempt: int) -> Began:
    import torch

    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    cpus, threads = sorted(os.sched_getaffinity(0)), torch.get_num_threads()
    ready = RankReady(cpus=cpus, threads=threads, device=device, host=socket.gethostname())
    return Began(place.rank, attempt, os.getpid(), ready, time.time())


def _die_with_launcher() -> None:
    """Where the launcher is killed, nothing of the job is left; a crash prints where it was."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    faulthandler.enable()


def _print_into(path: Path) -> None:
    """Everything that this process and its children print; a restarted rank adds to it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _take_cpus_and_gpu(place: RankPlace, description: JobDescription, backend: str) -> bool:
    """Before torch is imported: the rank's share of what this machine has. Whether a GPU is its own."""
    from accel.distributed.ranks.cpus_of_ranks import cpus_of_ranks

    unbind()
    threads = description.threads
    allocation = cpus_of_ranks(place.local_world_size, threads)
    if allocation is not None:
        allocation.ranks[place.local_rank].pin()
    elif threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    gpus = visible_devices(os.environ.get("CUDA_VISIBLE_DEVICES"))
    has_gpu = len(gpus) >= place.local_world_size
    if backend != "gloo" and has_gpu and place.local_world_size > 1:
        os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=gpus[place.local_rank])
    return has_gpu


def visible_devices(setting: str | None) -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; asked of the driver where it is not set.

    >>> visible_devices("0,3")
    ['0', '3']
    """
    if setting is not None:
        return [part.strip() for part in setting.split(",") if part.strip()]
    from accel.machine.nvml import opened_nvml

    with opened_nvml() as nvml:
        return [str(number) for number in range(nvml.nvmlDeviceGetCount())] if nvml is not None else []


def _import_torch() -> None:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns where a host has no name
    for name in ("torch", "torch.distributed", "torch.nn.parallel", "torch._dynamo"):
        importlib.import_module(name)
    gc.freeze()  # what imports made stays: no later collection looks through it


def _backend(asked: str, place: RankPlace, store: Any, has_gpu: bool) -> str:
    """NCCL where each rank on each machine has a GPU, else gloo: asked of all, for all must take the same."""
    import torch
    import torch.distributed as dist

    if asked != "auto":
        return asked
    store.add("accel gpus", int(has_gpu and dist.is_nccl_available() and torch.cuda.is_available()))
    store.add("accel counted", 1)
    while store.add("accel counted", 0) < place.world_size:
        time.sleep(_COUNT_S)
    return "nccl" if store.add("accel gpus", 0) == place.world_size else "gloo"
