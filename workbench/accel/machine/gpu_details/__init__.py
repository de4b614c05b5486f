"""What the driver tells about one GPU: `accel.machine().gpus[0].details`.

details.py       GpuDetails: clocks, power, temperatures, PCIe, and all the rest, None where the driver does not tell
reading.py       the same from NVML and /sys
nvlinks.py       GpuNvLinks: how many, of which version, to what
peer_access.py   PeerAccess: whether a GPU reaches the memory of another, and why not
mig.py           Mig: a GPU divided into instances
notes.py         what is noteworthy, with what to do about it
"""

from __future__ import annotations

from accel.machine.gpu_details.details import GpuDetails
from accel.machine.gpu_details.reading import read_gpu_details

__all__ = ["GpuDetails", "read_gpu_details"]
