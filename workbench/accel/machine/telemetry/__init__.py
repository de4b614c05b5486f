"""The machine while it works, sampled in one thread at less than 1 % of one core.

accel.monitor()                live on the page; `.summary(last_s=60)`, `.history`, `.to_dataframe()`, `.snapshot()`

counters.py         what a system has counted until a moment
proc_reader.py      those of Linux, from files of /proc that stay open; child_processes.py: loader and trial workers
psutil_reader.py    those of macOS and Windows
gpu_load.py         what NVML says of each GPU
sample.py           what happened between two readings
load_history.py     the last minutes of samples, as arrays
sampler.py          the thread, and what it costs
load_in_words.py    a sample as texts, LoadSnapshot; load_summary.py: means and peaks; terminal_view.py: a terminal
monitor.py          all of it for the user
"""

from __future__ import annotations

from accel.machine.telemetry.load_in_words import LoadSnapshot
from accel.machine.telemetry.load_summary import LoadSummary
from accel.machine.telemetry.monitor import Monitor, monitor
from accel.machine.telemetry.sampler import Sampler
from accel.machine.telemetry.terminal_view import watch

__all__ = ["LoadSnapshot", "LoadSummary", "Monitor", "Sampler", "monitor", "watch"]
