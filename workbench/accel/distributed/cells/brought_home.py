"""What a run made of the notebook's objects: collected in rank 0, and put into the notebook's own, which stay the same."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from accel.distributed.cells.home_objects import OF_OPTIMIZERS, Path, walk
from accel.distributed.cells.plain_values import SCALARS, has_state, is_of_notebook
from accel.distributed.data_parallel.gathered_pieces import has_pieces
from accel.errors import first_line
from accel.workload.memory_file import MemoryFile
from accel.workload.separate_parts import FOREIGN, pack_parts
from accel.workload.whole_objects import count_hooks_from, hooks_of, set_hooks

if TYPE_CHECKING:
    import torch

Key = tuple[str, Path]  # what of an object, and the way to it
_IN_PIECES = (
    "it holds parts of tensors that are spread over the ranks, which not every rank keeps there: in the cell, "
    "keep copy.deepcopy(model.state_dict()) on every rank, not a copy of the model"
)
_PARTS = ("_parameters", "_buffers", "_modules")


class Travellers:
    """In a rank: the objects that came from the notebook, as they came.

    >>> travellers = Travellers(namespace, names)       # before the cell runs
    >>> blob, memory, left_behind = travellers.packed(namespace, writes)
    """

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str]) -> None:
        self._came = dict(walk(namespace, names))
        self._names = {path[0]: value for path, value in self._came.items() if len(path) == 1}
        self._versions: dict[Path, tuple[int, int] | None] = {}  # None: a lazy layer's, without numbers
        self._classes: dict[Path, type[Any]] = {}  # of modules and tensors, which may change theirs
        self._hooked: dict[Path, dict[str, int]] = {}  # which dictionaries have a tensor's hooks
        self._before: dict[Path, Any] = {}  # what containers held
        self._attributes: dict[Path, dict[str, Any]] = {}
        self._parts: dict[Path, list[dict[str, Any]]] = {}
        self._modes: dict[Path, bool] = {}  # of modules: training or not
        self._states: dict[Path, Any] = {}  # of what has load_state_dict, modules excepted
        self._silent: set[int] = set()  # tensors whose version does not tell
        self._unread: list[list[str]] = []
        for path, value in self._came.items():
            try:
                self._note(path, value)
            except FOREIGN as error:  # of the user's own class
                self._unread.append([_name(path), f"it cannot be looked at: {first_line(error)}"])

    def _note(self, path: Path, value: Any) -> None:
        import torch
        from torch.nn.modules.batchnorm import _NormBase

        if isinstance(value, torch.Tensor):
            self._versions[path], self._classes[path] = _version(value), type(value)
            self._hooked[path] = {name: id(hooks) for name, hooks in hooks_of(value).items()}
        elif isinstance(value, torch.nn.Module):
            self._classes[path] = type(value)
            self._parts[path], self._modes[path] = _parts(value), value.training
            if isinstance(value, _NormBase):
                self._silent |= {id(each) for each in value.buffers(recurse=False)}
        elif isinstance(value, (list, dict, set, collections.deque)):
            self._before[path] = copy.copy(value)
        elif isinstance(value, torch.optim.Optimizer):
            self._states[path] = _mark(vars(value).get("state"))
        elif has_state(value):
            self._states[path] = _mark(value.state_dict())
        if _has_own_attributes(value):
            self._attributes[path] = _attributes(value)

    def packed(
        self, namespace: Mapping[str, Any], writes: Iterable[str], stepped: Container[int] = ()
    ) -> tuple[bytes, MemoryFile, list[list[str]]]:
        """What has changed, as one pickle with its memory, and [name, why not] of what cannot travel.

        `stepped` are ids of optimizers that took a step, and of their parameters: a fused update leaves no mark on a tensor.
        """
        left_behind = list(self._unread)
        found = self._changes(left_behind, stepped)
        for name in writes:
            value = namespace.get(name, self)
            if value is not self and self._names.get(name, self) is not value and not name.startswith("__"):
                found.append((("variable", (name,)), value))
        parts: list[tuple[Key, Any]] = []
        for key, value in found:
            if _has_pieces(value):
                left_behind.append([_name(key[1]), _IN_PIECES])
            else:
                parts.append((key, value))
        known = {id(value): path for path, value in self._came.items()}
        blob, memory, refused = pack_parts(parts, known)
        values = dict(parts)
        for key, why in refused.items():
            left_behind.append([_name(key[1]), f"a {type(values[key]).__name__} cannot be pickled ({why})"])
        return blob, memory, left_behind

    def plain_changes(self, namespace: Mapping[str, Any], writes: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """(name, value) of new variables, and of containers and attributes of the user's own objects that have changed."""
        for name in writes:
            value = namespace.get(name, self)
            if value is not self and self._names.get(name, self) is not value:
                yield name, value
        for path, value in self._came.items():
            try:
                if path in self._before and not _is_same(value, self._before[path]):
                    yield _name(path), value
                for name, part in (_attributes(value) if path in self._attributes else {}).items():
                    before = self._attributes[path]
                    if name not in before or not _is_equal(part, before[name]):
                        yield _name((*path, name)), part
            except FOREIGN:  # of the user's own class: `packed` says so
                continue

    def _changes(self, left_behind: list[list[str]], stepped: Container[int]) -> list[tuple[Key, Any]]:
        changes: list[tuple[Key, Any]] = []
        for path, value in self._came.items():
            try:
                changes += self._changes_of(path, value, stepped)
            except FOREIGN as error:
                left_behind.append([_name(path), f"what became of it cannot be read: {first_line(error)}"])
        order = list(_PUT)
        return sorted(changes, key=lambda change: order.index(change[0][0]))

    def _changes_of(self, path: Path, value: Any, stepped: Container[int]) -> Iterator[tuple[Key, Any]]:
        import torch
        from torch.utils.hooks import RemovableHandle

        if self._classes.get(path, type(value)) is not type(value):
            yield ("class", path), type(value)
        if path in self._versions:
            new = {
                name: each
                for name, each in hooks_of(value).items()
                if self._hooked[path].get(name) != id(each)
            }
            if new:
                yield ("hooks", path), (new, RemovableHandle.next_id)
            is_marked = self._versions[path] != (version := _version(value))
            if version and (is_marked or id(value) in self._silent or id(value) in stepped):
                yield ("tensor", path), value.detach()
        elif path in self._parts:
            if value.training != self._modes[path]:
                yield ("mode", path), value.training
            if not _are_same(now := _parts(value), self._parts[path]):
                yield ("parts", path), now
        elif isinstance(value, torch.optim.Optimizer):
            if _mark(state := vars(value).get("state")) != self._states[path] or id(value) in stepped:
                yield ("of optimizer", path), dict(state or {})
        elif path in self._states:
            if _mark(state := value.state_dict()) != self._states[path] or id(value) in stepped:
                yield ("state", path), state
        elif path in self._before and not _is_same(value, self._before[path]):
            yield ("contents", path), copy.copy(value)  # itself, it would travel as its token
        if path in self._attributes:
            held, before = _attributes(value), self._attributes[path]
            yield from ((("removed", (*path, name)), None) for name in before if name not in held)
            for name, part in held.items():
                if name not in before or not _is_equal(part, before[name]):
                    yield ("attribute", (*path, name)), part


def bring_home(
    arrived: Iterable[tuple[Key, Any]], refused: Mapping[Key, str], home: Mapping[Path, Any], namespace: dict[str, Any]
) -> list[tuple[str, str]]:  # fmt: skip
    """In the notebook: put what `Travellers` packed into the objects at home; gives (name, why not) of what cannot be.

    >>> home = Home(walk(namespace, names))
    >>> bring_home(*unpack_parts(blob, memory, home), home, namespace)
    []
    """
    missed = [(_name(path), f"it cannot be put together here ({why})") for (_, path), why in refused.items()]
    for (kind, path), value in arrived:
        owner = path[:-1] if kind in ("removed", "attribute") else path
        if kind == "variable":
            namespace[path[0]] = value
            continue
        try:
            mine = home[owner]
        except KeyError:
            missed.append((_name(path), "the notebook has nothing at that place any more"))
            continue
        try:
            _PUT[kind](mine, path[-1], value)
        except FOREIGN as error:
            missed.append((_name(path), f"the notebook's own does not take it ({first_line(error)})"))
    return missed


def _put_tensor(mine: torch.Tensor, name: str, theirs: torch.Tensor) -> None:
    import torch

    with torch.no_grad():
        _fill(mine, theirs)


def _put_contents(mine: Any, name: str, contents: Any) -> None:
    kind: Any = next(each for each in type(mine).__mro__ if each.__module__ in ("builtins", "collections"))
    kind.clear(mine)  # not the user's own methods, which may raise when half of it is done
    kind.extend(mine, contents) if isinstance(mine, (list, collections.deque)) else kind.update(
        mine, contents
    )


def _put_parts(mine: Any, name: str, parts: list[dict[str, Any]]) -> None:
    for own, now in zip(_held(mine), parts, strict=True):
        own.clear()
        own.update(now)


def _put_state(optimizer: Any, name: str, state: dict[Any, Any]) -> None:
    """In place, for others may share it; on the device where the notebook has the parameter."""
    import torch

    def moved(value: Any, device: Any) -> Any:
        is_elsewhere = isinstance(value, torch.Tensor) and value.device.type == device.type
        return value.to(device) if is_elsewhere else value

    optimizer.state.clear()
    for key, of_key in state.items():
        is_of_parameter = isinstance(key, torch.Tensor) and isinstance(of_key, dict)
        optimizer.state[key] = (
            {each: moved(value, key.device) for each, value in of_key.items()} if is_of_parameter else of_key
        )


def _put_hooks(tensor: Any, name: str, new: tuple[dict[str, Any], int]) -> None:
    set_hooks(tensor, new[0])
    count_hooks_from(new[1])


# What travels, in the order in which it is put into the notebook's own: (the object, the last word of the path, what came).
_PUT: dict[str, Callable[[Any, str, Any], object]] = {
    "class": lambda mine, name, cls: setattr(mine, "__class__", cls),
    "tensor": _put_tensor,
    "hooks": _put_hooks,
    "of optimizer": _put_state,
    "state": lambda mine, name, state: mine.load_state_dict(state),
    "mode": lambda module, name, is_training: setattr(module, "training", is_training),
    "contents": _put_contents,
    "removed": lambda owner, name, nothing: vars(owner).pop(name, None),
    "attribute": lambda owner, name, value: vars(owner).update({name: value}),
    "parts": _put_parts,
}


def _name(path: Path) -> str:
    return ".".join(map(str, path)).replace(".[", "[")


def _fill(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    if mine.shape == theirs.shape and mine.dtype == theirs.dtype:
        mine.copy_(theirs)
    else:  # as after pruning
        mine.data = theirs.to(mine.device)


def _has_pieces(value: Any) -> bool:
    try:
        return has_pieces(value)
    except FOREIGN:  # of the user's own class; its pickling will say so
        return False


def _version(tensor: Any) -> tuple[int, int] | None:
    from torch.nn.parameter import is_lazy

    return None if is_lazy(tensor) else (tensor._version, tensor.data_ptr())


def _has_own_attributes(value: Any) -> bool:
    import torch

    return is_of_notebook(value) or isinstance(value, (torch.nn.Module, torch.optim.Optimizer))


def _attributes(value: Any) -> dict[str, Any]:
    import torch

    skipped: set[str] = set()
    if isinstance(value, torch.nn.Module):
        skipped = {*_PARTS, "training", "_compiled_call_impl"}
    elif isinstance(value, torch.optim.Optimizer):
        skipped = OF_OPTIMIZERS
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
        return [(key if isinstance(key, SCALARS) else id(key), _mark(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [_mark(part) for part in value]
    return value if isinstance(value, SCALARS) else id(value)


def _is_equal(now: Any, before: Any) -> bool:
    """The same object, or an equal number or text."""
    return now is before or (type(now) is type(before) and isinstance(now, SCALARS) and now == before)


def _is_same(now: Any, before: Any) -> bool:
    """Whether a container holds what it held: the same objects, or equal numbers and texts."""
    if len(now) != len(before):
        return False
    if isinstance(now, set):
        return bool(now == before)
    if isinstance(now, dict):
        return list(now) == list(before) and all(_is_equal(now[key], before[key]) for key in now)
    return all(_is_equal(a, b) for a, b in zip(now, before, strict=True))
