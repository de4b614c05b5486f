"""Settings of torch that change what a program computes: shipped to workers, and guarded against change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Read = Callable[[], Any]
Write = Callable[[Any], Any]


def read_settings() -> dict[str, Any]:
    """Every setting by name, as it is now.

    >>> read_settings()["threads"]
    2
    """
    return {name: read() for name, (read, _) in _table().items()}


def write_settings(settings: dict[str, Any]) -> None:
    """Put settings in force, as `read_settings` gave them; only what differs is touched."""
    for name, (read, write) in _table().items():
        if name in settings and read() != settings[name]:
            write(settings[name])


def _table() -> dict[str, tuple[Read, Write]]:
    import torch

    cudnn, matmul, onednn = torch.backends.cudnn, torch.backends.cuda.matmul, torch.backends.mkldnn
    return {
        "threads": (torch.get_num_threads, torch.set_num_threads),
        "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "default device": (torch.get_default_device, torch.set_default_device),
        "gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
        "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "deterministic": (
            lambda: (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
        ),
        "anomaly mode": (
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            lambda value: torch.set_anomaly_enabled(*value),
        ),
        "cudnn.enabled": _attribute(cudnn, "enabled"),
        "cudnn.benchmark": _attribute(cudnn, "benchmark"),
        "cudnn.deterministic": _attribute(cudnn, "deterministic"),
        "cudnn.allow_tf32": _attribute(cudnn, "allow_tf32"),
        "cuda.matmul.allow_tf32": _attribute(matmul, "allow_tf32"),
        "mkldnn.enabled": _attribute(onednn, "enabled"),
    }


def _attribute(owner: Any, name: str) -> tuple[Read, Write]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)
