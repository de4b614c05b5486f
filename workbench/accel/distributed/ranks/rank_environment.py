"""The notebook's environment variables in a rank: those that libraries read as they start, and the others."""

from __future__ import annotations

import os

_READ_AT_START = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "LD_", "MALLOC_", "PYTHON", "TORCH", "PYTORCH_", "CUDA_",
    "NCCL_", "GLOO_", "CCL_", "FI_", "TMPDIR",
)  # fmt: skip
_taken: set[str] = set()


def read_at_start() -> dict[str, str]:
    """Variables that a rank has to be started with: a change of them takes new ranks."""
    return {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)}


def sent_along() -> dict[str, str]:
    """The others: they go with every run, as they are then."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_READ_AT_START)}


def take_environment(sent: dict[str, str]) -> None:
    """In a rank: have these variables, and no more those that came with an earlier run alone."""
    for name in _taken - sent.keys():
        os.environ.pop(name, None)
    _taken.clear()
    _taken.update(sent)
    os.environ.update(sent)
