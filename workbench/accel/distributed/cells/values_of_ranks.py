"""Numbers that a cell counted or added up on each rank's own part of the data: what comes home is rank 0's, and says so."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from accel.distributed.cells.plain_values import is_of_notebook
from accel.distributed.ranks.called_function import RETURNED
from accel.workload.exchanged_values import from_all_ranks

_MOST_NUMBERS = 100_000  # of a list
_MOST_ENTRIES = 50  # of a dictionary
_MOST_PARTS = 10  # of a tuple
_MOST_DEEP = 3
_ROUNDING = 1e-6  # a time of day is another on each rank
_SHOWN_WHOLE, _SHOWN = 5, 9
_ORDER = ("number", "list", "tensor")


@dataclass(frozen=True)
class RankValues:
    """A number, or the mean of a list of them, on each rank; None where it is not finite, or the rank has none."""

    name: str
    of_ranks: tuple[float | None, ...]

    def __str__(self) -> str:
        known = [each for each in self.of_ranks if each is not None]
        first = "nan" if self.of_ranks[0] is None else f"{self.of_ranks[0]:.4g}"
        if len(known) < len(self.of_ranks):
            return f"{self.name} {first}"
        return f"{self.name} {first} ({sum(known):.4g}, {sum(known) / len(known):.4g})"


def line_of(values: Sequence[RankValues]) -> str:
    """In one line; empty where there are none.

    >>> line_of([RankValues("correct", (12.0, 19.0))])
    "Values of rank 0, from its part of the data only (in brackets: sum and mean over all ranks): correct 12 (31, 15.5)."
    """
    if not values:
        return ""
    shown = [str(each) for each in values[:_SHOWN_WHOLE]] + [
        each.name for each in values[_SHOWN_WHOLE:_SHOWN]
    ]
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    what = "Values of rank 0, from its part of the data only (in brackets: sum and mean over all ranks)"
    return f"{what}: {', '.join(shown)}{more}."


def values_of_ranks(written: Iterable[tuple[str, Any]], source: str) -> list[RankValues]:
    """Those of what a cell wrote that differ between ranks; called on every rank.

    >>> values_of_ranks([("correct", 12), ("epoch", 3)], source)
    [RankValues(name='correct', of_ranks=(12.0, 19.0))]
    """
    batches = _loop_targets(source)
    mine: dict[str, tuple[str, list[float]]] = {}
    for name, value in written:
        if not name.startswith("_") and name not in batches:
            with suppress(Exception):  # of the user's own classes: such a value goes without a label
                mine |= _numbers_in(name, value)
    everyone = from_all_ranks(mine)
    found = [
        (
            _ORDER.index(kind),
            RankValues(_shown(name, kind, numbers), tuple(_mean(each.get(name)) for each in everyone)),
        )
        for name, (kind, numbers) in everyone[0].items()
        if any(_differ(numbers, each[name][1]) for each in everyone[1:] if name in each)
    ]
    return [values for _, values in sorted(found, key=lambda pair: pair[0])]


def _loop_targets(source: str) -> set[str]:
    """Names that a `for` binds: of a loop over a loader, the last batch, which is each rank's own as a matter of course."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    targets = [node.target for node in ast.walk(tree) if isinstance(node, ast.For)]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _numbers_in(name: str, value: Any, depth: int = 0) -> dict[str, tuple[str, list[float]]]:
    """Names of numbers and lists in it → ("number" or "list" or "tensor", the numbers)."""
    if depth == _MOST_DEEP:
        return {}
    if isinstance(value, Mapping):
        parts = [(f"{name}[{key!r}]", part) for key, part in list(value.items())[:_MOST_ENTRIES]]
    elif isinstance(value, tuple) and len(value) <= _MOST_PARTS:
        parts = [(f"{name}[{number}]", part) for number, part in enumerate(value)]
    elif is_of_notebook(value) and not _is_torch(value):
        parts = [(f"{name}.{key}", part) for key, part in list(vars(value).items())[:_MOST_ENTRIES]]
    else:
        kind = (
            "number" if isinstance(value, (int, float)) else "list" if isinstance(value, list) else "tensor"
        )
        numbers = _flat(value)
        return {} if numbers is None else {name: (kind, numbers)}
    found: dict[str, tuple[str, list[float]]] = {}
    for part_name, part in parts:
        found |= _numbers_in(part_name, part, depth + 1)
    return found


def _is_torch(value: Any) -> bool:
    import torch

    return isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor))


def _flat(value: Any, depth: int = 0) -> list[float] | None:
    """The numbers of a number, a small tensor or array, or a list of them; None for anything else."""
    import torch

    if type(value) in (int, float):
        return [value]
    if type(value) is torch.Tensor:
        is_small = value.dim() <= 1 and value.numel() <= _MOST_NUMBERS and value.device.type != "meta"
        is_real = value.layout == torch.strided and not value.is_complex() and not value.is_quantized
        is_own = not (value.is_leaf and value.requires_grad)
        return (
            list(map(float, value.detach().reshape(-1).tolist())) if is_small and is_real and is_own else None
        )
    if type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "iuf":
        return (
            list(map(float, value.reshape(-1).tolist()))
            if value.ndim <= 1 and value.size <= _MOST_NUMBERS
            else None
        )
    if isinstance(value, (list, tuple)) and len(value) <= _MOST_NUMBERS and depth < _MOST_DEEP:
        parts = list(_flat_parts(value, depth + 1))
        return None if None in parts else [number for part in parts if part is not None for number in part]
    return None


def _flat_parts(values: Iterable[Any], depth: int) -> Iterator[list[float] | None]:
    for value in values:
        numbers = _flat(value, depth)
        yield numbers
        if numbers is None:
            return


def _differ(one: list[float], other: list[float]) -> bool:
    if len(one) != len(other):
        return True
    return any(
        a != b and (type(a) is type(b) is int or not math.isclose(a, b, rel_tol=_ROUNDING))
        for a, b in zip(one, other, strict=True)
        if not (a != a and b != b)
    )


def _shown(name: str, kind: str, numbers: list[float]) -> str:
    name = name.replace(RETURNED, "what it returned")
    return f"mean({name})" if kind == "list" or len(numbers) != 1 else name


def _mean(found: tuple[str, list[float]] | None) -> float | None:
    if found is None or not found[1]:
        return None
    try:
        mean = sum(found[1]) / len(found[1])
    except OverflowError:  # whole numbers have no largest one
        return None
    return mean if math.isfinite(mean) else None
