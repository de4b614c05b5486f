"""What of a process a cell can leave changed, besides code and what every run sets anew, in one table."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


def process_state() -> dict[str, Any]:
    """Each by name, as it is now, to be compared.

    >>> process_state()["garbage collection"]
    True
    """
    return {name: read() for name, read in _READ.items()}


def _signal_handlers() -> list[Any]:
    """What torch's loaders install to hear of their workers' deaths, and leave, is no change by the cell."""
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    return [
        signal.SIG_DFL if str(getattr(each, "__module__", "")).startswith("torch.") else each
        for each in handlers
    ]


def _hooks() -> list[Any]:
    """Of all modules and of all optimizers."""
    from torch.nn.modules import module
    from torch.optim import optimizer

    held = [
        value
        for owner, start in ((module, "_global_"), (optimizer, "_global_optimizer_"))
        for name, value in sorted(vars(owner).items())
        if name.startswith(start) and isinstance(value, dict)
    ]
    return [list(hooks.values()) for hooks in held]


def _torch_switches() -> list[Any]:
    """Those that no run sets anew."""
    import torch

    devices = ("cpu", "cuda")
    read = [(torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in devices]
    attention = [
        getattr(torch.backends.cuda, name)()
        for name in sorted(dir(torch.backends.cuda))
        if name.endswith("_sdp_enabled")
    ]
    smallest = torch.tensor([1e-310], dtype=torch.float64)
    flushes_denormal = bool((smallest * 1 == 0).item())
    return [*read, *attention, flushes_denormal, torch.is_inference_mode_enabled()]


def _compiler_switches() -> list[Any]:
    config: Any = sys.modules.get("torch._dynamo.config")
    return [config.get_hash()] if hasattr(config, "get_hash") else []


def _process_groups() -> list[Any]:
    """With the number that torch gives its next group: ranks whose numbers differ wait for each other in vain."""
    from torch.distributed import distributed_c10d, is_initialized

    return [is_initialized(), distributed_c10d.get_pg_count()]


def _start_method() -> str:
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _limits() -> list[Any]:
    return [
        resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")
    ]


def _mask() -> str:
    try:
        with open("/proc/self/status") as file:
            return next((line for line in file if line.startswith("Umask")), "")
    except OSError:
        return ""


_READ: dict[str, Callable[[], Any]] = {
    "signal handlers": _signal_handlers,
    "hooks of all modules or optimizers": _hooks,
    "switches of torch": _torch_switches,
    "switches of torch.compile": _compiler_switches,
    "process groups": _process_groups,
    "garbage collection": gc.isenabled,
    "tracing": lambda: (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
    "CPUs": lambda: sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
    "priority": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "session": lambda: (os.getsid(0), os.getpgid(0)),
    "rights of new files": _mask,
    "limits": _limits,
    "how processes start": _start_method,
}
