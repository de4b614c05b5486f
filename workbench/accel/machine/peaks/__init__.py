"""What this machine can do at most: computing, moving data, copying between devices, adding up over ranks.

accel.peaks()                     measured once and stored; prints, `.of("cpu")`, `.copies.rate("cpu", "cuda:0", pinned=True)`
accel.peaks(links=True)           with copies between GPUs and all-reduce between processes, which takes seconds more
accel.machine.peaks.known_peaks() those that are stored, without measuring

machine_peaks.py       Peaks, and DevicePeaks: FLOP/s by dtype and bytes/s of one device; how they look: accel/views/peaks.py
copies.py              Copies, measured too: bytes/s between host and devices, by pageable and pinned memory, and between GPUs
all_reduces.py         AllReduces: seconds of an all-reduce, its algorithmic and bus bandwidth
stored.py              peaks(): read from the file in the user's cache, else measured and stored
measuring.py           measure every device
timing.py              budgets, and the time of one call
device_rates.py        matrix products by dtype, and bytes moved in one device's memory
cache_sizes.py         how much data tells of memory, how much of the caches
measuring_child.py     a process of its own that measures
gpus.py                the GPUs, in such a process
all_reducing.py        all-reduce between fresh processes, each on CPUs of its own
all_reduce_rank.py     one of those processes
other_work.py          what other processes had of the CPUs or GPUs while something ran
"""

from __future__ import annotations

from accel.machine.peaks.all_reduces import AllReducePeak, AllReduces
from accel.machine.peaks.copies import Copies, CopyPeak
from accel.machine.peaks.machine_peaks import DevicePeaks, Peaks
from accel.machine.peaks.stored import WAY, known_peaks, peaks, peaks_path, read_peaks

__all__ = [
    "WAY", "AllReducePeak", "AllReduces", "Copies", "CopyPeak", "DevicePeaks", "Peaks", "known_peaks", "peaks",
    "peaks_path", "read_peaks",
]  # fmt: skip
