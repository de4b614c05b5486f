"""Where threads, workers and ranks sit on the cores, and where they should.

accel.affinity()                       the core map with who is where, and the problems in words
accel.machine.affinity.allocate(r, t)  CPUs for r ranks of t threads: physical cores first, nodes kept together, with `.as_env`

cpu_map.py         each logical CPU's core, socket, node and cache, from /sys below any root; as boxes in boxes, for drawing
allocation.py      who gets which CPU, and OpenMP's variables for it
pinning.py         set a mask, or say why the system does not let us
processes_here.py  which processes are the notebook's: loader workers, trial workers, ranks
thread_names.py    what a thread is for
thread_places.py   where threads are and how busy, from /proc
affinity_notes.py  names the problems
affinity.py        accel.affinity(); how it looks: accel/views/affinity
"""

from __future__ import annotations

from accel.machine.affinity.affinity import Affinity, AffinityLooks, affinity
from accel.machine.affinity.allocation import Allocation, RankCpus, allocate
from accel.machine.affinity.cpu_map import CpuMap, LogicalCpu, read_cpu_map

__all__ = [
    "Affinity",
    "AffinityLooks",
    "Allocation",
    "CpuMap",
    "LogicalCpu",
    "RankCpus",
    "affinity",
    "allocate",
    "read_cpu_map",
]
