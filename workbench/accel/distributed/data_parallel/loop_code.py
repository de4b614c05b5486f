"""Whether a loop over a loader trains, as its code says before its first batch: modes and gradients may be set inside it."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from accel.distributed.data_parallel.gradient_readers import is_of_library, with_nested
from accel.workload.namespace_reads import functions_behind, globals_read

_TRAINS = {"backward", "step", "grad", "grad_and_value", "value_and_grad", "vjp", "jacrev"}
_HIDES = {"getattr", "exec"}
_WITHOUT_GRADIENTS = {"no_grad", "inference_mode", "set_grad_enabled"}
_KNOWN = {"torch", "numpy", "builtins", "__main__", *sys.stdlib_module_names}
_BETWEEN = {"CACHE", "EXTENDED_ARG", "PUSH_NULL", "KW_NAMES", "PRECALL", "COPY_FREE_VARS", "NOT_TAKEN"}


@dataclass(frozen=True)
class Body:
    """Names of variables that a loop's body reads, and of attributes; and the code inside it."""

    variables: frozenset[str]
    attributes: frozenset[str]
    codes: tuple[CodeType, ...]


def trains_by_code(caller: FrameType | None) -> bool | None:
    """Whether the loop that this frame, or one that called it, begins trains; None where its code leaves that open.

    >>> trains_by_code(sys._getframe(1))     # in a loader's `__iter__`, of `for x, y in loader: total += len(y)`
    False

    True: it calls `train()`, `backward()` and `step()`. False: nothing that it calls can train, or it leaves gradients out.
    """
    is_direct = True
    while caller is not None and is_of_library(caller.f_code):
        caller, is_direct = caller.f_back, False
    body = _body(caller.f_code, caller.f_lasti) if caller is not None else None
    if caller is None or body is None:
        return None
    if body.attributes & _TRAINS and "train" not in body.attributes:
        return None
    held = {**caller.f_globals, **caller.f_locals}
    used = [held[name] for name in body.variables if name in held]
    codes = _codes_of(body, used, caller.f_globals)
    attributes = body.attributes.union(*map(_attributes, codes))
    names = body.variables.union(attributes, *(code.co_names for code in codes))
    if {"train", "backward", "step"} <= attributes:
        return None if "eval" in attributes else True
    if names & (_TRAINS | _HIDES):
        return None
    everything = [*used, *(held[name] for code in codes for name in globals_read(code) if name in held)]
    own = str(caller.f_globals.get("__name__"))
    if not all(_is_known(each, own) for each in everything):
        return None  # what code elsewhere does with a batch is not seen
    return False if is_direct or names & _WITHOUT_GRADIENTS else None


def _codes_of(body: Body, used: Iterable[Any], namespace: Mapping[str, Any]) -> list[CodeType]:
    """The code inside a body, and of the notebook's functions that it leads to; of methods, those that are named."""
    found = [inner for code in body.codes for inner in with_nested([code])]
    waiting = [
        *used,
        *(namespace[name] for code in found for name in globals_read(code) if name in namespace),
    ]
    known, names = (
        {id(each) for each in waiting},
        set(body.attributes).union(*(code.co_names for code in found)),
    )
    methods: list[CodeType] = []
    while waiting:
        for function in functions_behind(waiting.pop(), namespace):
            is_method = "." in function.__qualname__.rpartition("<locals>.")[2]
            methods.append(function.__code__) if is_method else found.extend(with_nested([function.__code__]))
        called = [
            code for code in methods if code.co_name in names or code.co_name.startswith(("__", "forward"))
        ]
        found += [inner for code in called for inner in with_nested([code]) if inner not in found]
        names.update(*(code.co_names for code in found))
        read = {name for code in found for name in globals_read(code) if name in namespace}
        new = [namespace[name] for name in read if id(namespace[name]) not in known]
        waiting += new
        known |= {id(each) for each in new}
    return found


def _is_known(value: Any, own: str) -> bool:
    """Whether it belongs to the notebook, Python, numpy or torch. What objects of other libraries do is not known here."""
    from torch import nn

    if isinstance(value, nn.Module):
        return True
    if isinstance(value, ModuleType):
        module = value.__name__
    else:
        is_code = isinstance(value, (type, FunctionType, BuiltinFunctionType))
        module = str(getattr(value if is_code else type(value), "__module__", None) or "builtins")
    return module == own or module.partition(".")[0] in _KNOWN


@functools.lru_cache(maxsize=256)
def _body(code: CodeType, at: int) -> Body | None:
    """Of the loop, or comprehension, that is begun by what the instruction at this offset gives."""
    instructions = [each for each in dis.get_instructions(code) if each.opname not in _BETWEEN]
    place = next(
        n for n, each in enumerate(instructions) if each.offset >= at
    )  # Python 3.11 calls in PRECALL as well
    while instructions[place].opname.startswith("CALL"):  # as enumerate(loader)
        place += 1
    if instructions[place].opname == "GET_ITER":
        place += 1
        if instructions[place].opname.startswith("CALL"):
            inner = next(
                (each.argval for each in instructions[place::-1] if isinstance(each.argval, CodeType)), None
            )
            return _read(dis.get_instructions(inner)) if inner is not None else None
    first = instructions[place]
    if first.opname != "FOR_ITER":
        return None
    return _read(each for each in instructions if first.offset < each.offset < first.argval)


def _read(instructions: Iterable[dis.Instruction]) -> Body | None:
    variables: set[str] = set()
    stored: set[str] = set()
    attributes: set[str] = set()
    codes: list[CodeType] = []
    for each in instructions:
        name = each.opname
        if name.startswith(("YIELD", "SEND")):
            return None  # what becomes of the batch, others decide
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(each.argval)
        elif isinstance(each.argval, CodeType):
            codes.append(each.argval)
        elif name.startswith(("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF")):
            variables.update(each.argval if isinstance(each.argval, tuple) else [each.argval])
        elif name.startswith("STORE_") and name not in ("STORE_SUBSCR", "STORE_ATTR", "STORE_SLICE"):
            stored.update(each.argval if isinstance(each.argval, tuple) else [each.argval])
    return Body(frozenset(variables - stored), frozenset(attributes), tuple(codes))


@functools.lru_cache(maxsize=4096)
def _attributes(code: CodeType) -> frozenset[str]:
    found = dis.get_instructions(code)
    return frozenset(each.argval for each in found if each.opname in ("LOAD_ATTR", "LOAD_METHOD"))
