"""What a run made of the notebook's objects: collected in rank 0, and put into the notebook's own, which stay the same."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel.distributed.gathered_pieces import has_pieces
from accel.distributed.home_objects import Path, walk
from accel.workload.memory_file import MemoryFile
from accel.workload.shipping import dump, load

if TYPE_CHECKING:
    import torch

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_IN_PIECES = (
    "it holds parts of tensors that are spread over the ranks, which not every rank keeps there: in the cell, "
    "keep copy.deepcopy(model.state_dict()) on every rank, not a copy of the model"
)
_PARTS = ("_parameters", "_buffers", "_modules")


@dataclass
class Changes:
    """What is sent home: new contents by path, and new variables by name."""

    tensors: dict[Path, Any] = field(default_factory=dict)
    states: dict[Path, Any] = field(default_factory=dict)  # of what has load_state_dict, modules excepted
    modes: dict[Path, bool] = field(default_factory=dict)  # of modules: training or not
    containers: dict[Path, Any] = field(default_factory=dict)
    attributes: dict[Path, dict[str, Any]] = field(
        default_factory=dict
    )  # of objects of the notebook's own classes
    removed: dict[Path, list[str]] = field(default_factory=dict)  # attributes that are gone
    parts: dict[Path, list[dict[str, Any]]] = field(
        default_factory=dict
    )  # of modules whose layers were exchanged
    variables: dict[str, Any] = field(default_factory=dict)


class Travellers:
    """In a rank: the objects that came from the notebook, as they came.

    >>> travellers = Travellers(namespace, names)       # before the cell runs
    >>> blob, memory, left_behind = travellers.packed(namespace, writes)
    """

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str]) -> None:
        import torch
        from torch.nn.modules.batchnorm import _NormBase

        self._came = dict(walk(namespace, names))
        self._names = {path[0]: value for path, value in self._came.items() if len(path) == 1}
        tensors = ((path, value) for path, value in self._came.items() if isinstance(value, torch.Tensor))
        self._versions = {path: (value._version, value.data_ptr()) for path, value in tensors}
        self._before = {
            path: copy.copy(value) for path, value in self._came.items() if isinstance(value, (list, dict, set))
        }  # fmt: skip
        self._attributes = {
            path: _attributes(value) for path, value in self._came.items() if _is_of_notebook(value)
        }  # fmt: skip
        modules = [(p, value) for p, value in self._came.items() if isinstance(value, torch.nn.Module)]
        self._parts = {path: _parts(value) for path, value in modules}
        norms = (value for _, value in modules if isinstance(value, _NormBase))
        self._silent = {
            id(each) for norm in norms for each in norm.buffers(recurse=False)
        }  # no version tells
        self._states = {
            path: _mark(value.state_dict()) for path, value in self._came.items() if _has_state(value)
        }

    def packed(
        self, namespace: Mapping[str, Any], writes: Iterable[str], stepped: Container[int] = ()
    ) -> tuple[bytes, MemoryFile, list[list[str]]]:
        """What has changed, as one pickle with its memory, and [name, why not] of what cannot travel.

        `stepped` are ids of optimizers that took a step, and of their parameters: a fused update leaves no mark on a tensor.
        """
        known = {id(value): path for path, value in self._came.items()}
        left_behind: list[list[str]] = []
        changes = self._changes(known, left_behind, stepped)
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

    def _changes(
        self, known: dict[int, Path], left_behind: list[list[str]], stepped: Container[int]
    ) -> Changes:
        import torch

        changes = Changes()
        for path, value in self._came.items():
            if isinstance(value, torch.Tensor):
                is_marked = self._versions[path] != (value._version, value.data_ptr())
                if is_marked or id(value) in self._silent or id(value) in stepped:
                    changes.tensors[path] = value.detach()
            elif isinstance(value, torch.nn.Module):
                changes.modes[path] = value.training
                if not _are_same(now := _parts(value), self._parts[path]):
                    changes.parts[path] = now
            elif path in self._states:
                if _mark(state := value.state_dict()) != self._states[path] or id(value) in stepped:
                    changes.states[path] = state
            elif isinstance(value, (list, dict, set)) and not _is_same(value, self._before[path]):
                if has_pieces(value):
                    left_behind.append([".".join(map(str, path)), _IN_PIECES])
                    continue
                changes.containers[path] = copy.copy(value)  # itself, it would travel as its token
            if path in self._attributes:
                self._compare_attributes(path, value, changes, known, left_behind)
        return changes

    def _compare_attributes(
        self, path: Path, value: Any, changes: Changes, known: dict[int, Path], left_behind: list[list[str]]
    ) -> None:
        now, before = _attributes(value), self._attributes[path]
        if removed := [name for name in before if name not in now]:
            changes.removed[path] = removed
        for name, part in now.items():
            if name in before and _is_equal(part, before[name]):
                continue
            if (why_not := _why_it_stays(part, known)) is None:
                changes.attributes.setdefault(path, {})[name] = part
            else:
                left_behind.append([".".join((*path, name)), why_not])


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
    for path, names in changes.removed.items():
        for name in names:
            vars(home[path]).pop(name, None)
    for path, values in changes.attributes.items():
        vars(home[path]).update(values)
    for path, parts in changes.parts.items():
        for mine, now in zip(_held(home[path]), parts, strict=True):
            mine.clear()
            mine.update(now)
    namespace.update(changes.variables)


def _fill(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    if mine.shape == theirs.shape and mine.dtype == theirs.dtype:
        mine.copy_(theirs)
    else:  # as after pruning
        mine.data = theirs.to(mine.device)


def _why_it_stays(value: Any, known: dict[int, Path]) -> str | None:
    """None when it can travel; else why it cannot."""
    if has_pieces(value):
        return _IN_PIECES
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


def _has_state(value: Any) -> bool:
    """Optimizers, schedulers, scalers and the like."""
    import torch

    if isinstance(value, (torch.nn.Module, type)):
        return False
    return hasattr(value, "load_state_dict") and hasattr(value, "state_dict")


def _attributes(value: Any) -> dict[str, Any]:
    import torch

    is_module = isinstance(value, torch.nn.Module)
    skipped = {*_PARTS, "training", "_compiled_call_impl"} if is_module else set()
    return {name: part for name, part in vars(value).items() if name not in skipped}


def _held(module: Any) -> list[dict[str, Any]]:
    return [vars(module)[name] for name in _PARTS]


def _parts(module: Any) -> list[dict[str, Any]]:
    return [dict(each) for each in _held(module)]


def _are_same(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> bool:
    """Whether these are the same objects by the same names."""
    return all(
        list(a) == list(b) and all(a[name] is b[name] for name in a) for a, b in zip(now, before, strict=True)
    )


def _mark(value: Any) -> Any:
    """What tells whether a state was changed, without reading its tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        return (value.data_ptr(), value._version)
    if isinstance(value, dict):
        return [(key, _mark(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [_mark(part) for part in value]
    return value if isinstance(value, _PLAIN) else id(value)


def _is_equal(now: Any, before: Any) -> bool:
    """The same object, or an equal number or text."""
    return now is before or (type(now) is type(before) and isinstance(now, _PLAIN) and now == before)


def _is_same(now: Any, before: Any) -> bool:
    """Whether a container holds what it held: the same objects, or equal numbers and texts."""
    if len(now) != len(before):
        return False
    if isinstance(now, set):
        return bool(now == before)
    if isinstance(now, dict):
        return list(now) == list(before) and all(_is_equal(now[key], before[key]) for key in now)
    return all(_is_equal(a, b) for a, b in zip(now, before, strict=True))
