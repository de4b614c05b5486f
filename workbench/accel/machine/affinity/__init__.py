"""Where threads, workers and ranks sit on the cores, and where they should.

accel.affinity()                       the core map with who is where, and what is amiss in words
accel.machine.affinity.allocate(r, t)  CPUs for r ranks of t threads: physical cores first, nodes kept together, with `.as_env`

cpu_map.py         each logical CPU's core, socket, node and cache, from /sys below any root
allocation.py      who gets which CPU, and OpenMP's variables for it
thread_places.py   threads of processes, from /proc
affinity.py        both together
"""

from __future__ import annotations

from accel.machine.affinity.affinity import Affinity, affinity
from accel.machine.affinity.allocation import Allocation, RankCpus, allocate
from accel.machine.affinity.cpu_map import CpuMap, LogicalCpu, read_cpu_map

__all__ = [
    "Affinity",
    "Allocation",
    "CpuMap",
    "LogicalCpu",
    "RankCpus",
    "affinity",
    "allocate",
    "read_cpu_map",
]
