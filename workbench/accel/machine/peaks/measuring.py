"""Measure every device with the present number of threads: the CPU here, GPUs and ranks in processes of their own."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from accel.doing import doing
from accel.errors import AccelError
from accel.machine.peaks.all_reduces import AllReduces
from accel.machine.peaks.cache_sizes import cache_sizes
from accel.machine.peaks.copies import Copies
from accel.machine.peaks.device_rates import cpu_products, moving
from accel.machine.peaks.machine_peaks import DevicePeaks, Peaks
from accel.machine.peaks.measuring_child import measuring_child
from accel.machine.peaks.other_work import OtherWork, undisturbed
from accel.machine.peaks.timing import wall
from accel.machine.reading import read_machine
from accel.processes.channel import Closed
from accel.processes.child import Child
from accel.processes.starting_mask import allowed_cpus

if TYPE_CHECKING:
    from accel.machine.machine import Machine

CACHED_BYTES = 512 << 10  # for each thread: less than a core's own cache
MEASURING_GPUS = "accel.machine.peaks.gpus"
CHILD_S = 120.0  # importing torch and starting CUDA can take long on a busy machine


def measure_peaks() -> Peaks:
    """Measure every device, with the present number of threads; random number generators are left alone.

    >>> measure_peaks().devices[0].bytes_per_s
    41.2e9
    """
    import torch

    started = time.perf_counter()
    with torch.no_grad(), torch.autocast("cpu", enabled=False), doing("measuring the CPU"):
        cpu, cpu_was_busy, cpu_note = _cpu()
    with doing("measuring GPUs"):
        messages, busy, notes = _gpus()
    return Peaks(
        devices=(cpu, *(DevicePeaks.from_dict(one["device"]) for one in messages if "device" in one)),
        torch=torch.__version__, measured=datetime.now().isoformat(timespec="seconds"),
        seconds=time.perf_counter() - started, was_busy=busy or cpu_was_busy, copies=_copies(messages),
        notes=(*filter(None, [cpu_note]), *notes),
    )  # fmt: skip


def measure_links() -> tuple[Copies, AllReduces]:
    """Copies between GPUs, and all-reduce between processes of this machine.

    >>> print(measure_links()[1])
    """

    from accel.machine.peaks.all_reducing import measure_all_reduces

    with doing("measuring all-reduces between processes"):
        all_reduces = measure_all_reduces()
    if _gpu_count() < 2:
        return Copies(), all_reduces
    with doing("measuring copies between GPUs"):
        messages, busy, notes = _gpus("--links")
    copies = _copies(messages)
    return replace(copies, notes=(*copies.notes, *notes)), replace(
        all_reduces, was_busy=busy or all_reduces.was_busy
    )


def _cpu() -> tuple[DevicePeaks, bool, str]:
    """The peaks of the CPU, whether any of them stayed disturbed, and what is to be known of them."""
    import torch

    machine, threads = read_machine(), torch.get_num_threads()
    caches = cache_sizes(machine, allowed_cpus())
    memory_bytes, note = caches.memory_bytes(machine.available_bytes)
    (rates, reasons), was_busy = cpu_products(threads)
    sizes = (memory_bytes, caches.cached_bytes(threads), CACHED_BYTES * threads)
    levels = [undisturbed(partial(_moving, size), threads) for size in sizes]
    peaks = DevicePeaks(
        device="cpu",
        name=machine.cpu_model,
        threads=threads,
        flops_per_s=rates,
        bytes_per_s=levels[0][0],
        cache_bytes=caches.total(threads),
        cache_bytes_per_s=levels[1][0],
        core_cache_bytes=min(threads * _core_cache(machine), caches.total(threads)),
        core_cache_bytes_per_s=levels[2][0],
        not_measured=reasons,
    )
    return peaks, was_busy or any(disturbed for _, disturbed in levels), note


def _moving(size: int, _attempt: int) -> float:
    return moving(size, "cpu", wall)


def _gpu_count() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _gpus(*arguments: str) -> tuple[list[dict[str, Any]], bool, tuple[str, ...]]:
    """What the process that measures GPUs has sent, whether other work was in the way, and what could not be measured.

    A process of their own: here the buffers would stay in the user's allocator and raise its peak.
    """
    if not _gpu_count():
        return [], False, ()
    messages: list[dict[str, Any]] = []
    with OtherWork() as others:
        try:
            messages, problem = messages_of(measuring_child(MEASURING_GPUS, *arguments))
        except AccelError as error:  # it could not be started
            problem = error.because
    notes = [one["note"] for one in messages if "note" in one] + [
        one["busy"] for one in messages if "busy" in one
    ]
    if problem:
        notes.append(f"Not all of the GPUs could be measured: {problem.splitlines()[-1][:200]}")
    return messages, others.disturbed or any("busy" in one for one in messages), tuple(notes)


def messages_of(child: Child) -> tuple[list[dict[str, Any]], str]:
    """The messages that a child sends until it ends, which is done here, and what went wrong with the rest."""
    messages: list[dict[str, Any]] = []
    until = time.monotonic() + CHILD_S
    try:
        while True:
            message, _, _ = child.channel.receive(max(0.0, until - time.monotonic()))
            messages.append(message.values)
    except TimeoutError:
        return messages, f"not done after {CHILD_S:.0f} s"
    except Closed:
        if not (status := child.exit_status()):  # None: it has sent all, and is still letting go of its GPUs
            return messages, ""
        return messages, child.output.text.strip() or f"their process ended with {status}"
    finally:
        child.close()


def _copies(messages: list[dict[str, Any]]) -> Copies:
    parts = [Copies.from_dict(one["copies"]) for one in messages if "copies" in one]
    rows = tuple(row for part in parts for row in part.rows)
    return Copies(rows, tuple(note for part in parts for note in part.notes))


def _core_cache(machine: Machine) -> int:
    """What each core has to itself."""
    return next((cache.bytes_each for cache in machine.caches if cache.name == "L2"), CACHED_BYTES)
