"""Random number generators that an object keeps for itself, such as a transform with its own numpy.random.default_rng().

They are found by following attributes, elements and what functions refer to; no code of the user's runs.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_MOST_OBJECTS = 5000
_FIRST = 50  # elements of a list or dictionary: that of a million file names holds no generator
_LIBRARIES = {*sys.stdlib_module_names, "torch", "torchvision", "numpy", "PIL", "accel"}


def own_generators(*things: Any) -> list[Any]:
    """Generators of random, numpy and torch that these objects hold or refer to, each once.

    >>> own_generators(Flip(rng=numpy.random.default_rng()))
    [Generator(PCG64)]
    """
    seen: dict[int, Any] = {}
    waiting, found = deque(things), []
    while waiting and len(seen) < _MOST_OBJECTS:
        thing = waiting.popleft()
        if id(thing) in seen or isinstance(thing, (str, bytes, int, float, complex, ModuleType, type(None))):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, _kinds()):
            found.append(thing)
        else:
            waiting.extend(_held_by(thing))
    return found


def state_of(generator: Any) -> Any:
    """What `put_back` needs; None for one that has no state (random.SystemRandom)."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state() if hasattr(generator, "get_state") else generator.state


def put_back(generator: Any, state: Any) -> None:
    """Set the generator to a state that `state_of` returned."""
    if state is None:
        return
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.state = state


def fingerprint(generators: list[Any]) -> list[bytes]:
    """Equal for equal states."""
    states = [state_of(generator) for generator in generators]
    return [pickle.dumps(state.tolist() if hasattr(state, "tolist") else state) for state in states]


def _kinds() -> tuple[type, ...]:
    import numpy.random as of_numpy
    import torch

    return random.Random, torch.Generator, of_numpy.Generator, of_numpy.RandomState, of_numpy.BitGenerator


def _held_by(thing: Any) -> Iterator[Any]:
    if isinstance(thing, dict):
        yield from islice(thing.values(), _FIRST)
    elif isinstance(thing, (list, tuple, set, frozenset, deque)):
        yield from islice(thing, _FIRST)
    elif isinstance(thing, partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, FunctionType):
        yield from _referred_to(thing)
    elif isinstance(thing, type):
        yield from [] if _is_of_a_library(thing) else vars(thing).values()
    else:
        yield from (getattr(thing, name, None) for name in ("__self__", "__func__") if _is_bound(thing))
        yield from _attributes(thing)
        yield from type(thing).__mro__


def _is_bound(thing: Any) -> bool:
    return isinstance(thing, (MethodType, staticmethod, classmethod, type(len)))


def _attributes(thing: Any) -> Iterator[Any]:
    """Also those in slots; asked of `object`, since a `__getattr__` of the user's would run."""
    slots = [name for kind in type(thing).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    for name in ("__dict__", *slots):
        try:
            yield object.__getattribute__(thing, name)
        except AttributeError:
            continue


def _names(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else [name for name in slots if name != "__weakref__"]


def _referred_to(function: FunctionType) -> Iterator[Any]:
    """What a function holds from the scopes around it, its defaults, and the globals that its code names."""
    yield from (function.__defaults__, function.__kwdefaults__, vars(function))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing was assigned yet
            continue
    if not _is_of_a_library(function):
        names = set(_names_in(function.__code__))
        yield from (value for name, value in function.__globals__.items() if name in names)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _is_of_a_library(thing: Any) -> bool:
    return str(thing.__module__).partition(".")[0] in _LIBRARIES
