"""Measure all-reduce between processes of this machine: Gloo on 127.0.0.1, NCCL where there are two GPUs or more.

Each rank is a fresh interpreter, never a fork: a forked child of a process whose OpenMP or CUDA has started hangs. This process
owns the store that they meet at. It listens on 127.0.0.1 alone, as the ranks do; by themselves torch and NCCL would open ports
that other machines reach.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from accel.errors import AccelError
from accel.machine.affinity import allocate
from accel.machine.peaks.all_reduces import AllReducePeak, AllReduces
from accel.machine.peaks.measuring_child import measuring_child
from accel.machine.peaks.other_work import OtherWork
from accel.processes.channel import Closed
from accel.processes.child import Child
from accel.processes.starting_mask import allowed_cpus

RANK = "accel.machine.peaks.all_reduce_rank"
GLOO_RANKS = 2
SIZES_BYTES = (4 << 10, 1 << 20, 16 << 20, 64 << 20)  # the smallest is for how long a turn takes
DEADLINE_S = 90.0  # importing torch takes long on a busy machine
LOOK_S = 0.05


def measure_all_reduces(
    sizes_bytes: Sequence[int] = SIZES_BYTES, budget_s: float = 0.4, deadline_s: float = DEADLINE_S
) -> AllReduces:
    """Two ranks on the CPU, each on CPUs of its own; and one on each GPU. `notes` say what cannot be measured.

    >>> print(measure_all_reduces())
    """
    import torch
    from torch import distributed

    if not distributed.is_available():
        return AllReduces(notes=("This torch is built without torch.distributed: no all-reduce.",))
    cpus, notes = _cpus_of_ranks()
    rows: list[AllReducePeak] = []
    was_busy = False
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for backend, device, ranks, why_not in (
        (
            "gloo",
            "cpu",
            GLOO_RANKS,
            "" if distributed.is_gloo_available() else "this torch is built without it",
        ),
        ("nccl", "cuda", gpus, _why_no_nccl(gpus, distributed.is_nccl_available())),
    ):
        if why_not:
            notes.append(f"{backend}: {why_not}.")
            continue
        on = [number for own in cpus for number in own] if device == "cpu" else []
        with OtherWork(len(on) or ranks, on or None) as others:
            try:
                job = {
                    "backend": backend,
                    "device": device,
                    "sizes_bytes": list(sizes_bytes),
                    "budget_s": budget_s,
                }
                answers = run_ranks(RANK, ranks, job, cpus if device == "cpu" else [], deadline_s)
                rows += _rows(answers, backend, device)
            except AccelError as error:
                notes.append(f"{backend}: {error.because.rstrip('.')}.")
            except (RuntimeError, OSError, ValueError) as error:  # no store, no process, or no JSON from it
                first = (str(error).splitlines() or [type(error).__name__])[0]
                notes.append(f"{backend}: {first[:200].rstrip('.')}.")
        was_busy |= others.disturbed
    return AllReduces(tuple(rows), tuple(notes), was_busy)


def run_ranks(
    module: str, ranks: int, job: Mapping[str, Any], cpus: Sequence[Sequence[int]], deadline_s: float
) -> list[dict[str, Any]]:
    """Run a module as so many ranks that meet on 127.0.0.1; what each said. None of them is left behind.

    >>> run_ranks(RANK, 2, {"backend": "gloo", ...}, [(0,), (1,)], 60.0)[0]["seconds"]

    Raises AccelError when one fails, with what it printed last, or when they are not done in time.
    """
    with _store(deadline_s) as port:
        children: list[Child] = []
        try:
            for rank in range(ranks):
                own = tuple(cpus[rank]) if cpus else ()
                place = {"rank": rank, "ranks": ranks, "port": port, "cpus": own, "deadline_s": deadline_s}
                threads = {"OMP_NUM_THREADS": str(max(1, len(own)))}
                children.append(measuring_child(module, json.dumps({**job, **place}), environment=threads))
            return _answers(children, deadline_s)
        finally:
            for child in children:
                child.close()


@contextmanager
def _store(deadline_s: float) -> Iterator[int]:
    """A store of torch.distributed on a free port of 127.0.0.1; gone with the block."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    listening = socket.socket()
    try:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = int(listening.getsockname()[1])
        store = TCPStore(
            "127.0.0.1", port, None, True, timedelta(seconds=deadline_s), wait_for_workers=False,
            master_listen_fd=listening.detach(),
        )  # fmt: skip
    finally:
        listening.close()
    try:
        yield port
    finally:
        del store  # ends its thread and closes the port


def _answers(children: Sequence[Child], deadline_s: float) -> list[dict[str, Any]]:
    """Of all of them; the first that fails is the reason, the others would only wait for it."""
    until = time.monotonic() + deadline_s
    answers: dict[int, dict[str, Any]] = {}
    while len(answers) < len(children):
        for rank, child in enumerate(children):
            if rank in answers:
                continue
            with suppress(TimeoutError):
                answers[rank] = _answer(rank, child)
        if len(answers) < len(children) and time.monotonic() > until:
            raise _failed(f"it was not done after {deadline_s:.0f} s")
    return [answers[rank] for rank in range(len(children))]


def _answer(rank: int, child: Child) -> dict[str, Any]:
    """What it said; raises TimeoutError while it has said nothing."""
    try:
        message, _, _ = child.channel.receive(LOOK_S)
    except Closed:
        status = child.exit_status()
        how = "closed its connection" if status is None else f"ended with {status}"
        last = child.output.text.strip().splitlines() or ["it said nothing"]
        raise _failed(f"rank {rank} {how}: {last[-1][:200]}") from None
    values: dict[str, Any] = message.values
    return values


def _failed(why: str) -> AccelError:
    return AccelError(
        "an all-reduce between processes of this machine", because=why,
        do="Run %accel peaks --links --again on an idle machine.",
    )  # fmt: skip


def _rows(answers: Sequence[Mapping[str, Any]], backend: str, device: str) -> list[AllReducePeak]:
    """The shortest turn of each size; a turn is over when the last rank has its sum."""
    rows = []
    for size in answers[0]["seconds"]:
        turns = zip(*(one["seconds"][size] for one in answers), strict=True)
        rows.append(AllReducePeak(backend, device, len(answers), int(size), min(map(max, turns))))
    return rows


def _cpus_of_ranks() -> tuple[list[tuple[int, ...]], list[str]]:
    """Half of the cores for each of the two ranks; none where the system does not tell, or has too few."""
    for threads in range(max(1, _cores() // GLOO_RANKS), 0, -1):
        try:
            return [each.cpus for each in allocate(GLOO_RANKS, threads).ranks], []
        except AccelError as error:
            reason = str(error.because)
    return [], [f"The ranks were not pinned to CPUs of their own: {reason}."]


def _cores() -> int:
    return len(allowed_cpus()) or os.cpu_count() or 1


def _why_no_nccl(gpus: int, is_built_in: bool) -> str:
    if gpus < 2:
        return "no GPU here" if not gpus else "one GPU has none to reduce with"
    return "" if is_built_in else "this torch is built without it"
