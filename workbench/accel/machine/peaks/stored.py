"""The file in the user's cache that keeps what was measured."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from contextlib import suppress
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
