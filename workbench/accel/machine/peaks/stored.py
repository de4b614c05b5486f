"""The peaks of this machine: read from a file in the user's cache, else measured and stored."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from accel.machine.peaks.machine_peaks import Peaks

WAY = 5  # to be counted up when peaks are measured in another way: those stored are then measured again


def peaks_path() -> Path:
    """Where the peaks lie that belong to this host, processor, thread count, GPUs and torch.

    The host, as nodes of a cluster may share a home folder. The GPUs' names are the driver's: torch would start CUDA for them.
    """
    import torch

    from accel.machine.reading import read_machine

    machine = read_machine()
    gpus = [torch.cuda.device_count(), *(gpu.name for gpu in machine.gpus)]
    processor = [machine.cpu_model, machine.usable_cores, torch.get_num_threads()]
    setup = [WAY, platform.node(), *processor, torch.__version__, gpus]
    name = hashlib.sha256(json.dumps(setup).encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "accel" / f"peaks-{name}.json"


def read_peaks(path: Path) -> Peaks | None:
    """Stored peaks; None when there are none or the file is not one of ours, which is then measured again."""
    try:
        found = Peaks.from_dict(json.loads(path.read_text()))
        is_whole = all(
            "float32" in dict(one.flops_per_s) and one.bytes_per_s > 0 for one in found.devices
        ) and all(row.seconds > 0 for row in (found.all_reduces.rows if found.all_reduces else ()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return found if found.devices and is_whole else None


def store(found: Peaks, path: Path) -> None:
    """Written whole or not at all; where the folder cannot be written, the next process measures again."""
    draft = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(json.dumps(found.to_dict()))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


_measured_here: set[tuple[Path, str]] = (
    set()
)  # once a process, also where the machine stays busy: a profile must not get slow


def peaks(*, again: bool = False, links: bool = False) -> Peaks:
    """The peaks of this machine with the present number of threads: read from the user's cache, else measured.

    >>> peaks().of("cpu").bytes_per_s
    41.2e9

    Measuring takes about 3 s a device (up to three times as long while others have the cores), and the start of one process where
    there are GPUs. `links=True` adds all-reduce between processes, and copies between GPUs: some 10 s. Other work on the machine
    makes rates too low, never too high: what was measured while it ran is measured again by the next process, as it is with
    `again=True`, and the higher of both rates is kept; the title then says since when. Where too little memory is free for data
    that the caches cannot keep, the rate of memory may be too high, and a note says so.
    """
    path = peaks_path()
    stored = found = read_peaks(path)
    if found is None or again or (found.was_busy and (path, "devices") not in _measured_here):
        from accel.machine.peaks.measuring import measure_peaks

        _measured_here.add((path, "devices"))
        measured = measure_peaks()
        found = measured if found is None else measured.higher(found)
    if links and _has_links_due(found, path, again):
        from accel.machine.peaks.measuring import measure_links

        _measured_here.add((path, "links"))
        copies, all_reduces = measure_links()
        found = replace(
            found, copies=copies.higher(found.copies), all_reduces=all_reduces.shorter(found.all_reduces)
        )
    if found is not stored:
        store(found, path)
    return found


def known_peaks() -> Peaks | None:
    """The peaks that are stored for this machine; None where none were measured yet, which this does not do."""
    return read_peaks(peaks_path())


def _has_links_due(found: Peaks, path: Path, again: bool) -> bool:
    if found.all_reduces is None or again:
        return True
    return found.all_reduces.was_busy and (path, "links") not in _measured_here
