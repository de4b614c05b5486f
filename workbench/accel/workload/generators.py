"""The random number generators of this process: their states, and leaving them where they were."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def generators_kept() -> Iterator[None]:
    """Afterwards Python's, numpy's and torch's global generators are as they were; nothing is imported for it.

    >>> with generators_kept():
    ...     random.random()

    IPython draws a tip from `random` when somebody asks for its banner; so may any library.
    """
    states = generator_states()
    try:
        yield
    finally:
        restore_generators(states)


def generator_states() -> dict[str, Any]:
    """States of Python's and, where loaded, torch's, CUDA's and numpy's random number generators."""
    states: dict[str, Any] = {"python": random.getstate()}
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    if (torch := sys.modules.get("torch")) is None:
        return states
    states["torch"] = torch.get_rng_state()
    if torch.cuda.is_initialized():
        states["cuda"] = [state.cpu() for state in torch.cuda.get_rng_state_all()]
        states["current device"] = torch.cuda.current_device()
    return states


def seeded_states(seed: int = 0) -> dict[str, Any]:
    """States as after seeding all of them with this number, for `restore_generators`; they stay as they are.

    >>> restore_generators(seeded_states())     # the same random numbers in every process
    """
    states = generator_states() | {"python": random.Random(seed).getstate()}
    if "numpy" in states:
        states["numpy"] = sys.modules["numpy"].random.RandomState(seed).get_state()
    if "torch" in states:
        import torch

        states["torch"] = torch.Generator().manual_seed(seed).get_state()
        of_gpu = [torch.Generator("cuda").manual_seed(seed).get_state() for _ in states.get("cuda", ())[:1]]
        states |= {"cuda": of_gpu * len(states["cuda"])} if of_gpu else {}
    return states


def restore_generators(states: dict[str, Any]) -> None:
    """Put back what `generator_states` returned."""
    random.setstate(states["python"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    if "torch" not in states:
        return
    import torch

    torch.set_rng_state(states["torch"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"][: torch.cuda.device_count()])
    if "current device" in states:
        torch.cuda.set_device(device_here(f"cuda:{states['current device']}", torch.cuda.device_count()))


def device_here(device: str, gpus: int) -> str:
    """Where something of the notebook's device is put in a process that sees so many GPUs: a rank sees its own alone.

    >>> device_here("cuda:3", gpus=1)
    'cuda:0'
    """
    kind, _, number = device.partition(":")
    return "cuda:0" if kind == "cuda" and gpus and int(number or 0) >= gpus else device
