"""What a run made of the notebook's objects: collected in rank 0, and put into the notebook's own, which stay the same."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel.distributed.home_objects import Path, walk
from accel.workload.memory_file import MemoryFile
from accel.workload.shipping import dump, load

if TYPE_CHECKING:
    import torch


@dataclass
class Changes:
    """What is sent home: new contents by path, and new variables by name."""

    tensors: dict[Path, Any] = field(default_factory=dict)
    states: dict[Path, Any] = field(default_factory=dict)  # of what has load_state_dict, modules excepted
    modes: dict[Path, bool] = field(default_factory=dict)  # of modules: training or not
    containers: dict[Path, Any] = field(default_factory=dict)
    attributes: dict[Path, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)


class Travellers:
    """In a rank: the objects that came from the notebook, as they came.

    >>> travellers = Travellers(namespace, names)       # before the cell runs
    >>> blob, memory, left_behind = travellers.packed(namespace, writes)
    """

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str]) -> None:
        import torch

        self._came = dict(walk(namespace, names))
        self._names = {path[0]: value for path, value in self._came.items() if len(path) == 1}
        tensors = ((path, value) for path, value in self._came.items() if isinstance(value, torch.Tensor))
        self._versions = {path: (value._version, value.data_ptr()) for path, value in tensors}
        self._before = {
            path: copy.copy(value) for path, value in self._came.items() if isinstance(value, (list, dict, set))
        }  # fmt: skip
        self._plain = {
            path: _plain_attributes(value) for path, value in self._came.items() if _is_of_notebook(value)
        }  # fmt: skip

    def packed(
        self, namespace: Mapping[str, Any], writes: Iterable[str]
    ) -> tuple[bytes, MemoryFile, list[list[str]]]:
        """What has changed, as one pickle with its memory, and [name, why not] of what cannot travel."""
        changes, known = self._changes(), {id(value): path for path, value in self._came.items()}
        left_behind = []
        for name in writes:
            value = namespace.get(name, self)
            if value is self or self._names.get(name, self) is value or name.startswith("__"):
                continue
            if (why_not := _why_it_stays(value, known)) is None:
                changes.variables[name] = value
            else:
                left_behind.append([name, why_not])
        memory = MemoryFile()
        blob = dump(vars(changes), memory, known)
        memory.seal()
        return blob, memory, left_behind

    def _changes(self) -> Changes:
        import torch

        changes = Changes()
        for path, value in self._came.items():
            if isinstance(value, torch.Tensor):
                if self._versions[path] != (value._version, value.data_ptr()):
                    changes.tensors[path] = value.detach()
            elif isinstance(value, torch.nn.Module):
                changes.modes[path] = value.training
            elif hasattr(value, "load_state_dict") and hasattr(value, "state_dict"):
                changes.states[path] = value.state_dict()
            elif isinstance(value, (list, dict, set)):
                if not _is_same(value, self._before[path]):
                    changes.containers[path] = copy.copy(value)  # itself, it would travel as its token
            elif _is_of_notebook(value):
                plain = _plain_attributes(value)
                if plain != self._plain.get(path):
                    changes.attributes[path] = plain
        return changes


def bring_home(blob: bytes, memory: MemoryFile, home: Mapping[Path, Any], namespace: dict[str, Any]) -> None:
    """In the notebook: put what `Travellers` packed into the objects at home.

    >>> bring_home(blob, memory, dict(walk(namespace, names)), namespace)
    """
    import torch

    changes = Changes(**load(blob, memory, home))
    with torch.no_grad():
        for path, tensor in changes.tensors.items():
            _fill(home[path], tensor)
    for path, state in changes.states.items():
        home[path].load_state_dict(state)
    for path, is_training in changes.modes.items():
        home[path].training = is_training
    for path, contents in changes.containers.items():
        mine = home[path]
        mine.clear()
        mine.extend(contents) if isinstance(mine, list) else mine.update(contents)
    for path, values in changes.attributes.items():
        vars(home[path]).update(values)
    namespace.update(changes.variables)


def _fill(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    if mine.shape == theirs.shape and mine.dtype == theirs.dtype:
        mine.copy_(theirs)
    else:  # as after pruning
        mine.data = theirs.to(mine.device)


def _why_it_stays(value: Any, known: dict[int, Path]) -> str | None:
    """None when it can travel; else why it cannot."""
    spare = MemoryFile()
    try:
        dump(value, spare, known)
    except Exception as error:
        return f"a {type(value).__name__} cannot be pickled ({str(error).splitlines()[0] if str(error) else error!r})"
    finally:
        spare.close()
    return None


def _is_of_notebook(value: Any) -> bool:
    """Whether its class was made in the notebook: its plain attributes are the user's own state."""
    return type(value).__module__ == "__main__" and hasattr(value, "__dict__")


def _plain_attributes(value: Any) -> dict[str, Any]:
    kinds = (str, bytes, int, float, complex, bool, type(None))
    return {name: part for name, part in vars(value).items() if isinstance(part, kinds)}


def _is_same(now: Any, before: Any) -> bool:
    """Whether a container holds what it held: the same objects, or equal numbers and texts."""
    if len(now) != len(before):
        return False
    if isinstance(now, set):
        return bool(now == before)
    pairs = (
        ((now[key], before.get(key, now)) for key in now) if isinstance(now, dict) else zip(now, before, strict=True)
    )  # fmt: skip
    return all(
        a is b or (type(a) is type(b) and isinstance(a, (str, int, float, bytes, bool)) and a == b)
        for a, b in pairs
    )
