"""Check that a trial left the user's own things alone: parameters, optimizer state, RNG, globals, environment, flags."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accel.workload.generators import generator_states
from accel.workload.torch_settings import read_settings

if TYPE_CHECKING:
    from accel.workload.workload import Workload


@dataclass(frozen=True)
class StateGuard:
    """A fingerprint of everything a trial promises not to touch.

    >>> guard = StateGuard.of(workload); ...; guard.changes(workload)
    []
    """

    tensors: dict[str, tuple[int, int, int]]
    names: dict[str, int]
    generators: str
    environment: dict[str, str]
    settings: dict[str, Any]

    @classmethod
    def of(cls, workload: Workload) -> StateGuard:
        return cls(
            tensors=_tensors(workload),
            names={name: id(value) for name, value in workload.namespace.items() if not name.startswith("_")},
            generators=_digest(generator_states()),
            environment=dict(os.environ),
            settings=read_settings(),
        )

    def changes(self, workload: Workload) -> list[str]:
        """What differs now, in words; empty when everything is as it was."""
        now = StateGuard.of(workload)
        found = [
            f"{name} was changed" for name, mark in self.tensors.items() if now.tensors.get(name) != mark
        ]
        found += [
            f"variable {name!r} was rebound"
            for name, mark in self.names.items()
            if now.names.get(name) != mark
        ]
        if now.generators != self.generators:
            found.append("the random number generators moved")
        if now.environment != self.environment:
            found.append("environment variables changed")
        found += [
            f"torch setting {name} changed"
            for name, value in self.settings.items()
            if now.settings[name] != value
        ]
        return found


def _tensors(workload: Workload) -> dict[str, tuple[int, int, int]]:
    """(identity, memory address, version) of every parameter, buffer and optimizer state tensor: no bits are read."""
    import torch

    replica = workload.objects()
    found: dict[str, torch.Tensor] = {}
    for label, model in replica.models.items():
        found |= {
            f"{label}.{name}": tensor for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        }
    for label, optimizer in replica.optimizers.items():
        for index, state in enumerate(optimizer.state.values()):
            found |= {
                f"{label} state {index} {k}": v for k, v in state.items() if isinstance(v, torch.Tensor)
            }
    return {name: (id(tensor), tensor.data_ptr(), tensor._version) for name, tensor in found.items()}


def _digest(states: dict[str, Any]) -> str:
    import torch

    digest = hashlib.sha256()
    for name, state in states.items():
        parts = state if isinstance(state, (list, tuple)) else [state]
        for part in parts:
            is_array = isinstance(part, (torch.Tensor, np.ndarray))
            digest.update(np.asarray(part).tobytes() if is_array else f"{name} {part!r}".encode())
    return digest.hexdigest()
