"""Settings and circumstances of a cell's run: they change how fast it runs without being part of it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from accel.machine.peaks.other_work import Taken
from accel.processes.starting_mask import starting_mask

# Variables that somebody sets to find a fault, with the values under which they cost nothing.
DEBUGGING = {
    "CUDA_LAUNCH_BLOCKING": ("0",), "PYTORCH_NO_CUDA_MEMORY_CACHING": ("0",), "TORCH_SHOW_CPP_STACKTRACES": ("0",),
    "TORCH_SHOW_DISPATCH_TRACE": ("0",), "TORCH_LOGS": (), "TORCH_COMPILE_DEBUG": ("0",), "TORCHDYNAMO_VERBOSE": ("0",),
    "TORCH_CPP_LOG_LEVEL": ("ERROR", "WARNING", "FATAL"), "TORCH_DISTRIBUTED_DEBUG": ("OFF",),
    "NCCL_DEBUG": ("VERSION", "WARN"), "ONEDNN_VERBOSE": ("0", "none"), "DNNL_VERBOSE": ("0",), "MKL_VERBOSE": ("0",),
    "MALLOC_CHECK_": ("0",), "MALLOC_PERTURB_": ("0",), "PYTHONMALLOC": ("pymalloc", "malloc", "default"),
    "PYTHONDEVMODE": (),
}  # fmt: skip


@dataclass(frozen=True)
class RunConditions:
    """How the cell ran. The settings are those at its first backward, so that a `with` in the cell is seen too.

    >>> read_conditions().threads
    2

    `debugging` are environment variables for finding faults, with their values; `omp_num_threads` is "" when not set.
    `cpus` is how many the main thread's affinity mask allowed, `starting_cpus` how many before OpenMP narrowed it; 0 where the
    system has no masks. `autocast` are the (device, format) pairs of each autocast under which autograd recorded something.
    `never_clears`: several updates, and nothing cleared gradients in between. `step_nodes` are autograd's sequence numbers at the
    ends of the last steps, oldest first. `loader_workers` are the most worker processes of a loader that the cell read,
    `loader_passes` the passes over a loader that a step followed. `fetches_in_threads`: a thread other than the training's read
    a loader. `others` is what other programs took of the CPUs while the cell ran; None where that was not measured.
    """

    threads: int
    anomaly_mode: bool
    deterministic: bool
    cudnn_benchmark: bool
    cudnn_deterministic: bool
    omp_num_threads: str = ""
    debugging: tuple[tuple[str, str], ...] = ()
    cpus: int = 0
    starting_cpus: int = 0
    autocast: tuple[tuple[str, str], ...] = ()
    never_clears: bool = False
    step_nodes: tuple[int, ...] = ()
    loader_workers: int = 0
    loader_passes: int = 0
    fetches_in_threads: bool = False
    others: Taken | None = None


def read_conditions() -> RunConditions:
    """The settings as they are now."""
    import torch

    cudnn = torch.backends.cudnn
    return RunConditions(
        threads=torch.get_num_threads(),
        anomaly_mode=torch.is_anomaly_enabled(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        cudnn_benchmark=cudnn.benchmark,
        cudnn_deterministic=cudnn.deterministic,
        omp_num_threads=os.environ.get("OMP_NUM_THREADS", ""),
        debugging=tuple(
            (name, value)
            for name, harmless in DEBUGGING.items()
            if (value := os.environ.get(name, "")) and value not in harmless
        ),
        cpus=len(os.sched_getaffinity(0)) if sys.platform == "linux" else 0,
        starting_cpus=len(starting_mask()) if sys.platform == "linux" else 0,
    )
