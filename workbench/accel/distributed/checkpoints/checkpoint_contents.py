"""The state of a cell's variables as plain values and tensors, and back into the variables of a cell that began again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from accel.distributed.cells.plain_values import (
    SCALARS,
    has_state,
    is_of_notebook,
    is_plain,
    merged,
    plain_copy,
)
from accel.errors import first_line

Way = tuple[str | int, ...]
Contents = dict[str, dict[Way, Any]]
_OF_ALL = ("modules", "modes", "states")  # alike on all ranks: rank 0's serve
OWN = ("values", "entries", "attributes", "generators")
_MOST_ELEMENTS = 100_000  # of a container that is as long as it was: more is data, not state
_MOST_BYTES = 1 << 20  # the same of an array
_FORM = ("fused", "foreach", "capturable")  # flags of an optimizer


class CellVariables:
    """What a cell reads and binds, by the way that leads to it: models, optimizers, schedulers, tensors, numbers, lists.

    >>> variables = CellVariables(namespace, ["model", "optimizer", "losses"])
    >>> variables.training_begins()
    >>> contents = variables.contents(without=())
    >>> variables.put_back(contents)

    Data stay out: tensors and long lists that are as they were when training began. So do data sets, functions and everything
    else that the cell makes anew when it begins at its top.
    """

    def __init__(self, namespace: dict[str, Any], names: Iterable[str]) -> None:
        self._namespace, self._names = namespace, [*dict.fromkeys(names)]
        self._data: dict[int, tuple[Any, Any]] = {}

    def training_begins(self) -> None:
        """What is as it is now is made again by the cell itself."""
        self._data = {id(value): (value, _version(value)) for _, value in self._walk() if _may_be_data(value)}

    def contents(self, *, without: Iterable[str], is_first: bool = True) -> Contents:
        """Copies of all of it on the CPU; of ranks that are not the first, what is their own. Raises ValueError."""
        left_out = set(without)
        found: Contents = {kind: {} for kind in (*_OF_ALL, *OWN)}
        for way, value in self._walk():
            if not self._is_data(value) and not (way[0] in left_out and _holds_tensors(value)):
                _take(found, way, value, is_first)
        return found

    def nameless(self, optimizers: Iterable[Any]) -> str | None:
        """What is trained and no variable leads to, in words; None where there is nothing."""
        import torch

        reached = [value for _, value in self._walk()]
        taken = {id(value) for value in reached}
        for value in reached:
            if isinstance(value, torch.nn.Module):
                taken |= {id(p) for p in value.parameters()}
            elif is_plain(value):
                taken |= {id(tensor) for tensor in _tensors_in(value)}
        for optimizer in optimizers:
            kind = type(optimizer).__name__
            if id(optimizer) not in taken:
                return f"no variable of the cell leads to the {kind} that steps"
            if any(id(p) not in taken for group in optimizer.param_groups for p in group["params"]):
                return f"no variable of the cell leads to what the {kind} trains"
        return None

    def put_back(self, contents: Contents, *, is_final: bool = True) -> None:
        """Into the same objects where there are any, else as new variables; not final: what is not there yet is left out."""
        here = dict(self._walk())
        for way, value in contents["values"].items():
            value = merged(here.get(way), value)
            if len(way) == 1:
                self._namespace[str(way[0])] = value
        for kind, put in _PUTS.items():
            for way, saved in contents[kind].items():
                _act(here, way, put, saved, is_final)

    def generators(self) -> dict[Way, Any]:
        """States of the generators that the cell's variables and loaders have of their own."""
        import torch

        return {way: value.get_state() for way, value in self._walk() if isinstance(value, torch.Generator)}

    def set_generators(self, states: dict[Way, Any]) -> None:
        """What `generators` gave, as far as they are there."""
        here = dict(self._walk())
        for way, state in states.items():
            _act(here, way, _set_generator, state, False)

    def _is_data(self, value: Any) -> bool:
        known, version = self._data.get(id(value), (None, None))
        return known is value and known is not None and version == _version(value)

    def _walk(self) -> Iterator[tuple[Way, Any]]:
        """(way, value), each object once; what is inside an object with a state of its own belongs to that state."""
        names = [name for name in self._names if name in self._namespace]
        waiting: list[tuple[Way, Any]] = [((name,), self._namespace[name]) for name in reversed(names)]
        seen: dict[int, Any] = {}
        while waiting:
            way, value = waiting.pop()
            if type(value) not in SCALARS:
                if id(value) in seen:
                    continue
                seen[id(value)] = value
            yield way, value
            if not self._is_data(value):
                waiting += reversed([((*way, key), part) for key, part in _parts(value)])


def _parts(value: Any) -> list[tuple[str | int, Any]]:
    import torch
    from torch.utils.data import DataLoader

    if isinstance(value, torch.nn.Module) or has_state(value) or type(value) in SCALARS or is_plain(value):
        return []
    if isinstance(value, DataLoader):
        return _generators_of(value)
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif is_of_notebook(value):
        items = vars(value).items()
    else:
        return []
    return [(k, part) for k, part in items if isinstance(k, (str, int)) and type(part) not in SCALARS]


def _take(found: Contents, way: Way, value: Any, is_first: bool) -> None:
    import torch

    if isinstance(value, torch.nn.Module):
        if is_first:
            state = value.state_dict()
            hidden = {name: buffer for name, buffer in value.named_buffers() if name not in state}
            found["modules"][way] = _plain({"state": dict(state), "buffers": hidden}, way, value)
            found["modes"][way] = {name: part.training for name, part in value.named_modules()}
    elif isinstance(value, torch.Generator):
        found["generators"][way] = value.get_state()
    elif has_state(value):
        if is_first:
            found["states"][way] = _plain(value.state_dict(), way, value)
    elif is_plain(value):
        found["values"][way] = plain_copy(value)
    elif isinstance(value, dict):
        found["entries"][way] = {
            k: part for k, part in value.items() if type(k) is str and type(part) in SCALARS
        }
    if is_of_notebook(value):
        found["attributes"][way] = {k: part for k, part in vars(value).items() if type(part) in SCALARS}


def _plain(state: Any, way: Way, value: Any) -> Any:
    try:
        return plain_copy(state)
    except ValueError as error:
        raise ValueError(
            f"the state of {_name(way)}, a {type(value).__name__}, cannot be written: {error}"
        ) from None


def _act(
    here: dict[Way, Any], way: Way, put: Callable[[Any, Any], object], saved: Any, is_final: bool
) -> None:
    if way in here:
        try:
            put(here[way], saved)
        except (RuntimeError, ValueError, KeyError, AttributeError, TypeError) as error:
            if is_final:
                raise ValueError(f"{_name(way)} is not what it was: {first_line(error)}") from error
    elif is_final:
        raise ValueError(f"{_name(way)} is not there any more")


def _name(way: Way) -> str:
    return ".".join(str(part) for part in way)


def _load_module(mine: Any, saved: dict[str, Any]) -> None:
    import torch

    mine.load_state_dict(saved["state"])
    hidden = dict(mine.named_buffers())
    with torch.no_grad():
        for name, buffer in saved["buffers"].items():
            hidden[name].copy_(buffer)


def _set_modes(mine: Any, modes: dict[str, bool]) -> None:
    for name, part in mine.named_modules():
        part.training = modes.get(name, part.training)


def _load_state(mine: Any, state: Any) -> None:
    """In which form an optimizer updates stays as it is: the checkpoint has it as the plan of its run had made it."""
    forms = [
        {flag: group[flag] for flag in _FORM if flag in group} for group in getattr(mine, "param_groups", ())
    ]
    mine.load_state_dict(plain_copy(state))  # some keep what they are given
    for group, form in zip(getattr(mine, "param_groups", ()), forms, strict=True):
        group.update(form)


def _set_generator(mine: Any, state: Any) -> None:
    mine.set_state(state)


def _update(mine: Any, new: dict[str, Any]) -> None:
    (mine if isinstance(mine, dict) else vars(mine)).update(new)


_PUTS: dict[str, Callable[[Any, Any], object]] = {
    "entries": _update, "modules": _load_module, "modes": _set_modes, "states": _load_state, "attributes": _update,
    "generators": _set_generator,
}  # fmt: skip


def _may_be_data(value: Any) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return not (value.requires_grad and value.is_leaf)
    if isinstance(value, (list, tuple, dict, set)):
        return len(value) > _MOST_ELEMENTS or (len(value) > 0 and _holds_tensors(value))
    return int(getattr(value, "nbytes", 0)) > _MOST_BYTES


def _version(value: Any) -> Any:
    """What changes when the value is changed in place."""
    import torch

    if isinstance(value, torch.Tensor):
        return value._version, value.data_ptr()
    if isinstance(value, (list, tuple, dict, set)) and len(value) <= _MOST_ELEMENTS and is_plain(value):
        return [(id(tensor), *_version(tensor)) for tensor in _tensors_in(value)]
    return len(value) if hasattr(value, "__len__") else None


def _tensors_in(value: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _holds_tensors(value: Any) -> bool:
    return is_plain(value) and bool(_tensors_in(value))


def _generators_of(loader: Any) -> list[tuple[str | int, Any]]:
    """A loader's own generators: its, and its samplers'."""
    import torch

    batch_sampler = getattr(loader, "batch_sampler", None)
    inner = getattr(batch_sampler, "inner", batch_sampler)  # shared out among the ranks, or as it was
    samplers = {"sampler": loader.sampler, "batch_sampler": getattr(inner, "sampler", None)}
    holders = {"loader": loader, **{k: getattr(v, "inner", v) for k, v in samplers.items()}}
    found = [(name, getattr(holder, "generator", None)) for name, holder in holders.items()]
    return [(name, generator) for name, generator in found if isinstance(generator, torch.Generator)]
