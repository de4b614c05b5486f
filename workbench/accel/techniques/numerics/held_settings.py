"""Settings of torch that an acceleration changes for the whole process, and puts back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accel.errors import Reason
from accel.workload.torch_settings import read_settings, write_settings

if TYPE_CHECKING:
    from accel.workload import Replica

_held: list[str] = []


@contextmanager
def settings_held(
    replica: Replica, wanted: dict[str, Any], *, beside: tuple[str, ...] = ()
) -> Iterator[None]:
    """While entered, settings have the values in `wanted`; afterwards those of before, and so do the ones `beside` them
    that torch changes along. Nothing for a replica that is only a part of the process.

    >>> with settings_held(Replica(), {"cudnn.benchmark": True}):
    ...     train()

    The names are those of `torch_settings.py`; one that this version of torch lacks is left out.
    """
    if not replica.is_process_wide:
        yield
        return
    known = read_settings()
    before = {name: known[name] for name in (*wanted, *beside) if name in known}
    try:
        _held.extend(wanted)
        write_settings(wanted)
        yield
    finally:
        write_settings(before)
        for name in wanted:
            _held.remove(name)


def is_held(name: str) -> bool:
    """Whether a plan in force has changed this setting: what is on already may be on because of it."""
    return name in _held


def why_not_on(replica: Replica) -> list[Reason]:
    """A reason where a setting that acts on CUDA GPUs alone would do nothing."""
    import torch

    if replica.device_type == "cuda":
        return []
    if torch.cuda.is_available():
        return [
            Reason(
                f"The model is on the {replica.device_type}, and this acts on the GPU",
                "Move model and batches to cuda first.",
            )
        ]
    return [
        Reason("There is no CUDA GPU here, and this acts on nothing else", "Leave it off, or train on a GPU.")
    ]
