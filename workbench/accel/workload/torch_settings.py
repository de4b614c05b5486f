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
        "matmul precision": _old_name(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
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
        "cudnn.allow_tf32": _old_name(*_attribute(cudnn, "allow_tf32")),
        "cuda.matmul.allow_tf32": _old_name(*_attribute(matmul, "allow_tf32")),
        # After the old names of the same settings: where those are in force, there is nothing left to write here.
        **{
            f"{name}.fp32_precision": _attribute(owner, "fp32_precision")
            for name, owner in (
                ("cuda.matmul", matmul),
                ("cudnn.conv", getattr(cudnn, "conv", None)),
                ("cudnn.rnn", getattr(cudnn, "rnn", None)),
                ("mkldnn.matmul", getattr(onednn, "matmul", None)),
                ("mkldnn.conv", getattr(onednn, "conv", None)),
                ("mkldnn.rnn", getattr(onednn, "rnn", None)),
            )
            if hasattr(owner, "fp32_precision")
        },
        **{f"cuda.matmul.{name}": _reduction(matmul, name) for name in _REDUCTIONS if hasattr(matmul, name)},
        "mkldnn.enabled": _attribute(onednn, "enabled"),
    }


_REDUCTIONS = (
    "allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)


def _reduction(owner: Any, name: str) -> tuple[Read, Write]:
    """Newer versions of torch take a pair here, whose second half says whether a product may be split; others its first half."""
    split = f"{name}_split_k"
    if not hasattr(owner, split):
        read, write = _attribute(owner, name)
        return read, lambda value: write(value[0] if isinstance(value, tuple) else value)
    return lambda: (getattr(owner, name), getattr(owner, split)), lambda value: setattr(owner, name, value)


def _old_name(read: Read, write: Write) -> tuple[Read, Write]:
    """A setting that torch 2.9 gave new names: once somebody has used those, reading the old one can be an error. None then."""

    def read_unless_mixed() -> Any:
        try:
            return read()
        except RuntimeError:
            return None

    return read_unless_mixed, lambda value: None if value is None else write(value)


def _attribute(owner: Any, name: str) -> tuple[Read, Write]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)
