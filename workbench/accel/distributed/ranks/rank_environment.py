"""The notebook's environment variables in a rank: those that libraries read as they start, and the others."""

from __future__ import annotations

import os

_READ_AT_START = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "LD_", "MALLOC_", "PYTHON", "TORCH", "PYTORCH_", "CUDA_",
    "NCCL_", "GLOO_", "CCL_", "FI_", "TMPDIR",
)  # fmt: skip
_OF_LAUNCHERS = (
    "SLURM_", "SBATCH_", "OMPI_", "PMI", "MPI_", "TORCHELASTIC_", "MASTER_", "RANK", "LOCAL_RANK", "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
)  # fmt: skip
_taken: set[str] = set()


def read_at_start() -> dict[str, str]:
    """Variables that a rank has to be started with: a change of them takes new ranks."""
    return {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)}


def sent_along() -> dict[str, str]:
    """The others: they go with every run, as they are then."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_READ_AT_START)}


def changed_here() -> dict[str, str]:
    """Of the others, those that the notebook has set since its process began: a rank elsewhere has variables of its own.

    >>> os.environ["MY_DATA"] = "/data"; changed_here()
    {'MY_DATA': '/data'}
    """
    with open("/proc/self/environ", "rb") as file:
        began = dict(part.partition(b"=")[::2] for part in file.read().split(b"\0") if part)
    return {
        name: value
        for name, value in sent_along().items()
        if began.get(os.fsencode(name)) != os.fsencode(value) and not name.startswith(_OF_LAUNCHERS)
    }


def take_environment(sent: dict[str, str]) -> None:
    """In a rank: have these variables, and no more those that came with an earlier run alone."""
    for name in _taken - sent.keys():
        os.environ.pop(name, None)
    _taken.clear()
    _taken.update(sent)
    os.environ.update(sent)
