"""What the user calls the objects a cell was seen to use, and whether the cell made them itself."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from accel.errors import LeftOut
from accel.workload.module_names import held_by, named_parts
from accel.workload.namespace_reads import attributes_of, is_a
from accel.workload.workload import Role

if TYPE_CHECKING:
    from accel.workload.phase_marks import PhaseMarks


def roles_of(
    marks: PhaseMarks,
    *,
    before: Mapping[int, str],
    after: Mapping[str, Any],
    writes: Sequence[str],
    left_out: LeftOut,
) -> tuple[Role, ...]:
    """Roles of everything seen, in order of first use; `before` is `names_by_id` of the namespace before the run."""
    names = left_out.unless("Variable names of objects", lambda: names_by_id(after), dict[int, str]())
    labels: Counter[str] = Counter()
    roles: dict[tuple[str, int], Role] = {}
    for kind, seen in marks.seen:
        found, name = seen, names.get(id(seen))
        if kind == "models":
            found, name = left_out.unless(
                "Names of models", partial(_whole_model, seen, names, after), (seen, name)
            )
        if (kind, id(found)) in roles:
            continue
        if name is None:
            if kind == "criteria" and labels[type(found).__name__]:
                continue  # made anew in each step: one of them stands for all
            labels[type(found).__name__] += 1
            name = f"{type(found).__name__}_{labels[type(found).__name__]}"
        was_there = id(found) in before
        is_built = id(found) in marks.built or (not was_there and name in writes)
        inputs = marks.inputs.get(id(found)) if kind == "models" else None
        reference = weakref.ref(found)
        lines = marks.built_on.get(id(found), ()), marks.used_on.get(id(seen), ())
        roles[kind, id(found)] = Role(
            kind, name, is_built, reference, type(found).__qualname__, inputs, *lines
        )
    return tuple(roles.values())


def names_of_models(roles: Sequence[Role]) -> dict[int, str]:
    """The name of the model that a module is, or is a part of."""
    named = [(role.name, role.reference()) for role in roles if role.kind == "models"]
    models = [(name, model) for name, model in named if model is not None]
    parts = {id(part): name for name, model in models for _, part in named_parts(model)}
    return parts | {id(model): name for name, model in models}


def names_by_id(namespace: Mapping[str, Any]) -> dict[int, str]:
    """Names of the namespace's objects and of their attributes: a plain name wins, then the shortest path.

    IPython's `_`, `__`, `_12` are names of the last outputs, not the user's.
    """
    names: dict[int, str] = {}
    user = {name: value for name, value in namespace.items() if not name.startswith("_")}
    for name, value in user.items():
        names.setdefault(id(value), name)
    for name, value in user.items():
        with suppress(Exception):  # a class whose metaclass hides what it has
            for attribute, held in attributes_of(value).items() if _may_hold(value) else ():
                if isinstance(attribute, str) and attribute.isidentifier():
                    names.setdefault(id(held), f"{name}.{attribute}")
    return names


def _may_hold(value: object) -> bool:
    """Not a module of Python's, a class, or a model; asking the object itself could run code of the user's."""
    is_module = any(callable(vars(base).get("parameters")) for base in type(value).__mro__)
    return not is_module and not is_a(value, (ModuleType, type))


def _whole_model(seen: Any, names: Mapping[int, str], namespace: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The named model that `seen` is, is a part of, or is made of parts of: `model.forward(x)` only ever calls the parts, and
    `model[:2]` is a module of its own each time."""
    from torch import nn

    if id(seen) in names:
        return seen, names[id(seen)]
    has_own = any(each is not None for _, each in held_by(seen, "_parameters"))
    pieces = set() if has_own else {id(part) for _, part in held_by(seen, "_modules") if part is not None}
    for name, value in namespace.items():
        if is_a(value, nn.Module) and not name.startswith("_"):
            parts = {id(part) for _, part in named_parts(value)}
            if id(seen) in parts or (pieces and pieces <= parts):
                return value, name
    return seen, None
