"""The peaks of every GPU, measured in this process and sent to the kernel part by part.

    python -m accel.machine.peaks.gpus <descriptor> <pid of the kernel> [--links]

A process of its own, so that nothing of it is left in the user's process; with `--links` it measures
copies between GPUs instead. A part is sent as soon as it is known: what fails later does not take it back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from accel.machine.nvml import opened_nvml
from accel.machine.peaks.copies import Copies, host_copies, peer_copies
from accel.machine.peaks.device_rates import gpu_products, moving
from accel.machine.peaks.machine_peaks import DevicePeaks
from accel.machine.peaks.measuring_child import Measured
from accel.machine.peaks.other_work import gpus_at_work
from accel.machine.peaks.timing import by_events
from accel.processes.child_main import begin

MEMORY_BYTES = 512 << 20  # many times the caches of any GPU


def measure_gpus() -> Iterator[dict[str, Any]]:
    """For each GPU its peaks, then its copies to and from the host; notes for what could not be measured.

    >>> next(measure_gpus())["device"]["bytes_per_s"]
    1.6e12
    """
    import torch

    properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    with opened_nvml() as nvml:
        at_work = gpus_at_work(nvml, [str(getattr(one, "uuid", "")) for one in properties])
    for index, percent in at_work.items():
        yield {"busy": f"cuda:{index} was {percent} % at work for others before it was measured."}
    for index in range(len(properties)):
        device = f"cuda:{index}"
        try:
            with torch.no_grad(), torch.cuda.device(index), torch.autocast("cuda", enabled=False):
                yield {"device": _gpu(index).to_dict()}
                torch.cuda.empty_cache()
                yield {"copies": Copies(tuple(host_copies(device, torch.cuda.synchronize))).to_dict()}
        except torch.OutOfMemoryError:
            yield {
                "note": f"{device}: too little memory is free to measure all of it. Free some, then %accel peaks --again."
            }
        torch.cuda.empty_cache()


def measure_peers() -> Iterator[dict[str, Any]]:
    """Copies between every two GPUs."""
    import torch

    gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]

    def wait_for(source: str, target: str) -> None:
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)

    def can_access(reader: str, owner: str) -> bool:
        return torch.cuda.can_device_access_peer(reader, owner)

    yield {"copies": peer_copies(gpus, wait_for, can_access).to_dict()}


def _gpu(index: int) -> DevicePeaks:
    """Rates of one GPU."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    cache = int(getattr(properties, "L2_cache_size", 0))
    device = f"cuda:{index}"
    rates, reasons = gpu_products(device, (properties.major, properties.minor), by_events)
    memory = moving(MEMORY_BYTES, device, by_events)
    cached = moving(cache // 4, device, by_events) if cache else 0.0
    return DevicePeaks(device, properties.name, 0, rates, memory, cache, cached, not_measured=reasons)


def main(descriptor: int, kernel_pid: int, *words: str) -> None:
    channel = begin(descriptor, kernel_pid, Measured)
    for part in measure_peers() if "--links" in words else measure_gpus():
        channel.send(Measured(part))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
