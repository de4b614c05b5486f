"""What a cell kept of a model that is spread over ranks: made whole in every rank, so that it can come home."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from accel.distributed.cells.plain_values import SCALARS, is_of_notebook
from accel.techniques.sharding.sharded_model import READ_AT
from accel.workload.exchanged_values import from_all_ranks

Way = tuple[Any, ...]


def gather_pieces(namespace: dict[str, Any], names: Iterable[str], originals: Mapping[int, Any]) -> None:
    """Put whole tensors in the place of DTensors in these variables and in their lists, dictionaries and tuples.

    Every rank calls this at the same place. `originals` are the user's own parameters, by the id of the part that stands for
    one. What other ranks do not have at the same place stays as it is: no rank could put it together; and so does what they
    took from their models at different steps.

    >>> gather_pieces(namespace, ["best"], originals={})
    """
    held = {name: namespace[name] for name in dict.fromkeys(names) if name in namespace}
    found = {way: piece for name, value in held.items() for way, piece in _pieces(value, (name,))}
    mine = {
        way: (tuple(piece.shape), str(piece.dtype), getattr(piece, READ_AT, 0))
        for way, piece in found.items()
    }
    of_ranks = from_all_ranks(mine)
    whole: dict[int, Any] = {}
    for way, kind in of_ranks[0].items():
        if all(each.get(way) == kind for each in of_ranks) and id(found[way]) not in whole:
            whole[id(found[way])] = (
                originals.get(id(found[way])) if id(found[way]) in originals else _whole(found[way])
            )
    for name, value in held.items() if whole else ():
        namespace[name] = _with_whole(value, whole, set())


def has_pieces(value: Any) -> bool:
    """Whether a value, a model or a container holds DTensors.

    >>> has_pieces({"weight": torch.zeros(2)})
    False
    """
    import torch

    waiting, seen = [value], set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, torch.Tensor):
            if hasattr(current, "full_tensor"):
                return True
        elif isinstance(current, torch.nn.Module):
            waiting += [*current.parameters(), *current.buffers()]
        elif not isinstance(current, SCALARS) and id(current) not in seen:
            seen.add(id(current))
            waiting += [part for _, part in _parts(current)]
    return False


def _pieces(value: Any, way: Way, seen: set[int] | None = None) -> Iterator[tuple[Way, Any]]:
    import torch

    seen = set() if seen is None else seen
    if isinstance(value, torch.Tensor):
        if hasattr(value, "full_tensor"):
            yield way, value
        return
    if isinstance(value, (torch.nn.Module, torch.optim.Optimizer)):
        return  # what the plan has spread is put together by the plan
    if id(value) in seen:
        return
    for key, part in _parts(value):
        seen.add(id(value))
        yield from _pieces(part, (*way, key), seen)


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return (
            (key if type(key) in (str, int) else ("other", n), part)
            for n, (key, part) in enumerate(value.items())
        )
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    return vars(value).items() if is_of_notebook(value) else ()


def _with_whole(value: Any, whole: Mapping[int, Any], seen: set[int]) -> Any:
    """The same containers with others in them; a tuple with pieces in it is a new one."""
    import torch

    if id(value) in whole:
        return whole[id(value)]
    if id(value) in seen or isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)):
        return value
    seen.add(id(value))
    if isinstance(value, list):
        value[:] = [_with_whole(part, whole, seen) for part in value]
    elif isinstance(value, tuple):
        parts = [_with_whole(part, whole, seen) for part in value]
        if any(a is not b for a, b in zip(parts, value, strict=True)):
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    elif isinstance(value, dict) or is_of_notebook(value):
        held = value if isinstance(value, dict) else vars(value)
        held.update({key: _with_whole(part, whole, seen) for key, part in held.items()})
    return value


def _whole(piece: Any) -> Any:
    made = piece.detach().full_tensor()
    return made.requires_grad_(piece.requires_grad) if piece.is_leaf else made
