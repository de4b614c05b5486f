"""Which devices of a machine are joined by which link, and so which GPUs to use together.

accel.topology()      this machine, or a printed matrix: prints, shows as a table, `.figure()`, `.best_gpus(k)`, `.to_dict()`

links.py          the labels of `nvidia-smi topo -m`, ordered, with estimates of what they carry
device_links.py   GPUs, network cards, NUMA nodes, and the Link between every two devices
topology.py       Topology: what follows from that; how it looks: accel/views/topology
gpu_choice.py     best_gpus: every group looked at, the choice explained, CUDA_VISIBLE_DEVICES
matrix_text.py    the printed matrix, read; writing_matrix.py: written
reading.py        the same from NVML; pci_paths.py: bridges and network cards, from /sys
placing.py        which devices sit at which NUMA node; nvlinks.py: what NVLinks join
machine_tree.py   the machine as parts within parts
"""

from __future__ import annotations

from accel.machine.topology.device_links import Device, TopologyNode
from accel.machine.topology.links import Link
from accel.machine.topology.matrix_text import read_matrix
from accel.machine.topology.reading import read_topology, topology, unread_input
from accel.machine.topology.topology import Topology

__all__ = [
    "Device",
    "Link",
    "Topology",
    "TopologyNode",
    "read_matrix",
    "read_topology",
    "topology",
    "unread_input",
]
