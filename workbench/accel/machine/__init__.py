"""The machine a measurement was made on.

accel.machine()                 this machine: prints, shows as a table, `.to_dict()`
accel.machine.read_machine()    the same, with a choice of what to load
accel.machine.Machine           the value: `.line`, `.has_bf16`, `.usable_cores`, `.gpus` …
accel.peaks()                   the most it can do: FLOP/s and bytes/s

hardware.py           read_hardware(): processors, usable cores, memory and nodes below any root, and what is unknown
cpu_tree.py           what /sys tells of each logical CPU, read once; lscpu.py: the same from lscpu
system_files.py       small files of the kernel; cpu_lists.py: its lists of CPUs
cpu.py                model, cores, sockets, caches, instruction sets; core_kinds.py: fast and economical cores
usable_cores.py       affinity mask and quota, and which is the limit; cgroup.py: the limits of a container
memory.py             memory, swap, huge pages; CPUs and memory of each NUMA node
gpus.py               NVML, else torch.cuda
gpu_details/          GpuDetails: clocks, power, heat, PCIe, NVLink, access to other GPUs, MIG …
clock_reasons.py      what holds a GPU's clocks back, in words
visible_gpus.py       CUDA_VISIBLE_DEVICES, resolved
nvml.py               the NVIDIA driver's library, opened while it is asked
software.py           Software: torch's build and libraries, driver, C library; reading_software.py finds them, as the linker says
machine.py            Machine: all of it; reading.py: read_machine()
mmap_threshold.py     from which size on glibc maps a block; others_measuring.py: notebooks that measure at the same time
number_formats.py     what each format can hold; formats_of_machine.py: what each device does with it
peaks/                Peaks: the most this machine can do, measured and stored in the user's cache
installation.py       doctor(): what is installed, what is missing, what that would enable
"""

from __future__ import annotations

import sys

from accel.callable_package import CallablePackage
from accel.machine.gpus import Gpu
from accel.machine.machine import Machine
from accel.machine.reading import read_machine

__all__ = ["Gpu", "Machine", "read_machine"]

sys.modules[__name__].__class__ = CallablePackage
