"""Objects that pickle refuses, or of which it leaves a part out: how they travel whole, between processes of one notebook.

Hooks of tensors, all attributes of an optimizer, modules whose class forbids pickling (parametrizations), modules of TorchScript,
weak references, locks.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pkgutil
import threading
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from accel.workload.counted_steps import CALLED, count_steps, note_of_steps

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of a tensor
_LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_OF_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that a `class` statement made


def reduced(obj: Any, hold: Callable[[Any], None]) -> Any:
    """What a pickler's `reducer_override` gives for such an object; NotImplemented for all that pickle copies whole.

    >>> reduced(threading.Lock(), hold=[].append)
    (<built-in function allocate_lock>, ())

    `hold` gets what weak references lead to: a copy of it may have no other owner where it arrives.
    """
    import torch
    from torch.nn.parameter import is_lazy

    cls = type(obj)
    if issubclass(cls, type):
        return NotImplemented
    if issubclass(cls, types.ModuleType) and _is_found_by_name(obj):  # as torch.classes, torch.ops.aten
        return (pkgutil.resolve_name, (obj.__name__,))
    if cls in _LOCKS:
        return (_LOCKS[cls], ())
    if cls is types.CellType:
        return (types.CellType, (), _contents(obj), None, None, _fill)
    if (weak := _weak(obj, cls, hold)) is not None:
        return weak
    if is_lazy(obj):
        return (_lazy, (cls, obj.requires_grad, obj.device, obj.dtype))
    if issubclass(cls, torch.Tensor):
        return _with_hooks(obj) if hooks_of(obj) else NotImplemented
    if issubclass(cls, torch.jit.ScriptModule):
        return _script(obj, _parts_of_script(obj))
    if issubclass(cls, torch.jit.ScriptFunction):
        return _script(obj, None)
    if issubclass(cls, torch.optim.Optimizer) and cls.__getstate__ is torch.optim.Optimizer.__getstate__:
        return (bare, (cls,), _optimizer(obj), None, None, _set_optimizer)
    if cls is _kind_of_accumulation():
        return (_accumulate_grad, (obj.variable,))
    if issubclass(cls, threading.Thread):
        raise TypeError(f"cannot pickle {cls.__name__!r} object: a thread stays in its process")
    if (name := _shared_by_all(obj, cls)) is not None:
        return (bare, (cls,), (name, dict(vars(obj))), None, None, _share)
    has_own_way: Any = _has_own_way  # a class is hashable, whatever its type says
    passes_on: Any = _passes_on
    if has_own_way(cls):
        made = _whole(obj, cls)
        if made is not NotImplemented and passes_on(cls) and type((*made, None, None)[2]) is dict:
            return (*made[:3], *(*made[3:5], None, None)[:2], set_dict)
        return made
    is_plain = cls not in copyreg.dispatch_table and passes_on(cls)
    return (bare, (cls,), dict(vars(obj)), None, None, set_dict) if is_plain else NotImplemented


def bare(cls: type[Any]) -> Any:
    """An object without its attributes, which come later: what they lead to may lead back to it."""
    return object.__new__(cls)


def _contents(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing was bound yet
        return []


def _fill(cell: types.CellType, contents: list[Any]) -> None:
    for each in contents:
        cell.cell_contents = each


def _is_found_by_name(module: types.ModuleType) -> bool:
    """Whether importing the module's name gives this same object; False for plain modules, which cloudpickle can pickle."""
    if type(module) is types.ModuleType:
        return False
    try:
        return pkgutil.resolve_name(module.__name__) is module
    except Exception:  # resolve_name may import a library, which can raise anything
        return False


# --- weak references -------------------------------------------------------------------------------------------------


def _weak(obj: Any, cls: type[Any], hold: Callable[[Any], None]) -> Any:
    if cls in _PROXIES:
        try:
            hold(owner := obj.__reduce_ex__.__self__)
        except ReferenceError:  # what it led to is gone
            return (_dead_proxy, ())
        return (weakref.proxy, (owner,))
    if issubclass(cls, weakref.ref):
        if (owner := obj()) is None:
            return (_dead, ())
        if cls not in (weakref.ref, weakref.WeakMethod, weakref.KeyedRef):
            raise TypeError(
                f"cannot pickle {cls.__name__!r} object: a weak reference with arguments of its own"
            )
        hold(owner)
        if cls is weakref.KeyedRef:
            return (cls, (owner, obj.__callback__, obj.key))
        return (
            (cls, (owner, *filter(None, [obj.__callback__])))
            if cls is not weakref.WeakMethod
            else (cls, (owner,))
        )
    if cls is weakref.WeakSet:
        held = list(obj)
        setter: Callable[[Any, Any], None] = _update
    elif cls in (weakref.WeakKeyDictionary, weakref.WeakValueDictionary):
        held = list(obj.items())
        setter = _update
    else:
        return None
    for each in held:
        hold(each)
    return (cls, (), held, None, None, setter)


def _dead() -> Any:
    return weakref.ref(_Gone())


def _dead_proxy() -> Any:
    return weakref.proxy(_Gone())


class _Gone:
    pass


def _update(obj: Any, held: list[Any]) -> None:
    obj.update(held)


# --- of torch --------------------------------------------------------------------------------------------------------


def hooks_of(tensor: Any) -> dict[str, Any]:
    """The hooks that wait for a tensor's gradient, by torch's name for their kind.

    >>> hooks_of(model.weight)
    {}
    """
    if not tensor.is_leaf:
        return {}
    return {name: hooks for name in _HOOKS if (hooks := getattr(tensor, name, None))}


def set_hooks(tensor: Any, hooks: dict[str, Any]) -> None:
    """Give a tensor these hooks; the dictionaries become its own, so that handles remove what they removed before."""
    for name, each in hooks.items():
        setattr(tensor, name, each)


def count_hooks_from(number: int) -> None:
    """A hook that is registered from now on takes no number, and so no place, of one that came from another process."""
    from torch.utils.hooks import RemovableHandle

    RemovableHandle.next_id = max(RemovableHandle.next_id, number)


def _with_hooks(tensor: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "hooks are not serialized"
        made = tensor.__reduce_ex__(5)
    return (*made[:2], hooks_of(tensor), None, None, set_hooks)


def _lazy(cls: type[Any], requires_grad: bool, device: Any, dtype: Any) -> Any:
    """A parameter without a shape yet; torch's own pickles forget its type."""
    return cls(requires_grad=requires_grad, device=device, dtype=dtype)


@functools.cache
def _kind_of_accumulation() -> type[Any]:
    import torch

    return type(_accumulate_grad(torch.zeros((), requires_grad=True)))


def _accumulate_grad(variable: Any) -> Any:
    from torch.autograd.graph import _get_grad_fn_or_grad_acc

    return _get_grad_fn_or_grad_acc(variable)


def _optimizer(optimizer: Any) -> dict[str, Any]:
    """All its attributes: torch's own __getstate__ drops the hooks, and what a class of the user's adds."""
    state = dict(vars(optimizer))
    counted = note_of_steps(optimizer)
    if counted or hasattr(state.get("step"), "_torchdynamo_orig_callable"):  # compiled here, for this process
        del state["step"]
    return state | counted


def _set_optimizer(optimizer: Any, state: dict[str, Any]) -> None:
    if "defaults" in state:
        optimizer.__setstate__(state)
    else:  # a wrapper that is an optimizer by name, as Lookahead: torch's has not set it up
        vars(optimizer).update(state)
    if CALLED in state:
        count_steps(optimizer)


def _script(obj: Any, parts: Any) -> Any:
    import torch

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        torch.jit.save(obj, stream)
    return (_script_again, (stream.getvalue(),), parts, None, None, _set_parts_of_script)


def _script_again(code: bytes) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.load(io.BytesIO(code))  # type: ignore[no-untyped-call]


def _parts_of_script(module: Any) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Its tensors, which others have too, and what hangs on its Python side, by the name of the module in it."""
    return {
        name: (
            {**each._parameters, **each._buffers},
            {key: held for key, held in vars(each).items() if isinstance(held, OrderedDict) and held},
        )
        for name, each in module.named_modules()
    }


def _set_parts_of_script(module: Any, parts: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    modules = dict(module.named_modules())
    for name, (tensors, python) in parts.items():
        for key, tensor in tensors.items():
            modules[name]._c.setattr(key, tensor)
        modules[name].__dict__.update(python)


# --- classes whose objects share their attributes ---------------------------------------------------------------------


def _shared_by_all(obj: Any, cls: type[Any]) -> str | None:
    """The name of the class attribute that all instances share as their `__dict__`, as in Accelerate's states."""
    names: Any = _names_of_shared  # a class is hashable, whatever its type says
    return next(
        (name for name in names(cls) if getattr(cls, name, None) is getattr(obj, "__dict__", cls)), None
    )


@functools.lru_cache(512)
def _names_of_shared(cls: type[Any]) -> tuple[str, ...]:
    kinds = cls.__mro__[:-1]
    is_plain = all(each.__flags__ & _OF_PYTHON for each in kinds)
    return tuple(name for each in kinds for name in vars(each) if "shared_state" in name) if is_plain else ()


def _share(obj: Any, state: tuple[str, dict[str, Any]]) -> None:
    name, attributes = state
    shared = getattr(type(obj), name)
    if not shared:  # this process has no state of that class yet
        shared.update(attributes)
    obj.__dict__ = shared


# --- classes with a way of their own ---------------------------------------------------------------------------------


@functools.lru_cache(512)  # asked for every object, and a notebook makes classes without end
def _has_own_way(cls: type[Any]) -> bool:
    """Whether a Python class without a part in C says itself how it is pickled."""
    base = next(each for each in cls.__mro__ if not each.__flags__ & _OF_PYTHON)
    return base is object and any(
        getattr(cls, name, None) not in (getattr(object, name, None), _of_module(name))
        for name in ("__getstate__", "__reduce__", "__reduce_ex__")
    )


@functools.lru_cache(512)
def _passes_on(cls: type[Any]) -> bool:
    """Whether a plain Python class has a `__getattr__` and no `__setstate__`.

    Unpickling looks up `__setstate__` before the object has any attributes. A `__getattr__` that reads one of the object's own
    attributes then calls itself forever.
    """
    kinds = [each for each in cls.__mro__ if each is not object]
    return (
        all(each.__flags__ & _OF_PYTHON and not vars(each).get("__slots__") for each in kinds)
        and getattr(cls, "__getattr__", None) not in (None, _of_module("__getattr__"))
        and not hasattr(cls, "__setstate__")
    )


def _of_module(name: str) -> Any:
    import torch

    return getattr(torch.nn.Module, name, None)


def _whole(obj: Any, cls: type[Any]) -> Any:
    """As its class says, unless that raises (parametrized modules) or takes something away from the original (Pyro's guides):
    then all its attributes, as copy.deepcopy would copy those of a class that says nothing.
    """
    if not hasattr(obj, "__dict__"):
        return NotImplemented
    before = dict(vars(obj))
    try:
        made = obj.__reduce_ex__(5)
    except Exception:
        made = None
    after: dict[str, Any] = obj.__dict__
    is_as_before = after.keys() == before.keys() and all(after[name] is each for name, each in before.items())
    if made is not None and is_as_before:
        return made
    if not is_as_before:
        after.clear()
        after.update(before)
    before.pop("_compiled_call_impl", None)  # compiled here, for this process
    return (bare, (cls,), before, None, None, set_dict)


def set_dict(obj: Any, state: dict[str, Any]) -> None:
    """Give an object these attributes."""
    vars(obj).update(state)
