"""Change what happens around a model's call, in place, and put it back.

`nn.Module.__call__` uses `model._compiled_call_impl` when there is one (that is how `model.compile()` works). Setting
it keeps the model's identity, class and state_dict keys, and `nn.Module.__getstate__` drops it, so that copies and
pickles are of the plain model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from accel.errors import Reason
from accel.techniques.model.own_attribute import own_attribute

if TYPE_CHECKING:
    import torch

    from accel.workload import Workload

Call = Callable[..., Any]
Wrapper = TypeVar("Wrapper")
Thing = TypeVar("Thing")

_SLOT = "_compiled_call_impl"


@contextmanager
def wrapped_call(model: torch.nn.Module, wrap: Callable[[Call], Call]) -> Iterator[None]:
    """While entered, `model(x)` calls `wrap(what it called before)(x)`.

    >>> with wrapped_call(model, lambda inner: lambda x: inner(x).float()):
    ...     model(x).dtype
    torch.float32

    A wrapper that keeps what it wraps in an attribute `inner` can be found again by `find_wrapper`.
    """
    before = vars(model).get(_SLOT)
    # A model.compile() of the user's own, made meanwhile, replaces ours: then it is theirs to keep.
    with own_attribute(model, _SLOT, wrap(plain_call(model) if before is None else before)):
        yield


def plain_call(model: torch.nn.Module) -> Call:
    """The model's call with its hooks and without any wrapper."""
    call: Call = model._call_impl
    return call


def find_wrapper(model: torch.nn.Module, kind: type[Wrapper]) -> Wrapper | None:
    """The outermost wrapper of this kind that is in force on the model's call; None when there is none."""
    call = vars(model).get(_SLOT)
    while call is not None and not isinstance(call, kind):
        call = getattr(call, "inner", None)
    return call


def is_compiled_by_user(model: torch.nn.Module) -> bool:
    """Whether the model was compiled by `model.compile()` or `torch.compile(model)`; our own wrappers do not count."""
    call: Any = vars(model).get(_SLOT)
    while hasattr(call, "inner"):
        call = call.inner
    in_place = call is not None and getattr(call, "__func__", None) is not type(model)._call_impl
    return in_place or bool(why_not_wrapped("", model))


def why_not_wrapped(name: str, model: torch.nn.Module) -> list[Reason]:
    """The reason against a change of a model that `torch.compile(model)` has put another one round; else nothing."""
    if "_orig_mod" not in vars(model).get("_modules", {}):
        return []
    return [
        Reason(
            f"{name} is wrapped by torch.compile(…), which hides the model inside",
            f"Write {name}.compile() instead, which keeps it.",
        )
    ]


def why_never_called(name: str, workload: Workload) -> list[Reason]:
    """A reason against changing a model's call where the profiled run called nothing but its parts."""
    role = next((each for each in workload.roles if (each.kind, each.name) == ("models", name)), None)
    if role is None or role.inputs is not None:
        return []
    if hasattr(workload.objects().models.get(name), "training_step"):  # as Lightning's modules have
        return [
            Reason(
                f"{name} itself was never called in the profiled run, only its parts: the Trainer calls "
                f"{name}.training_step, which calls them",
                "Give its class a forward that does, and write self(x) in training_step.",
            )
        ]
    return [
        Reason(
            f"{name} itself was never called in the profiled run, only its parts: the cell calls {name}.forward(…), or them",
            f"Write {name}(…), which is what hooks and torch.compile act on too.",
        )
    ]


def why_not_inside(name: str, model: torch.nn.Module) -> list[Reason]:
    """A reason against wrapping the calls of a model's parts: the replicas of DataParallel would call the originals."""
    import torch

    if not any(isinstance(module, torch.nn.DataParallel) for module in model.modules()):
        return []
    return [
        Reason(
            f"{name} is in nn.DataParallel, whose copies on other GPUs would go on calling the blocks of the first",
            "Use DistributedDataParallel, or leave this off.",
        )
    ]


def distinct(named: dict[str, Thing]) -> list[tuple[str, Thing]]:
    """(name, object) pairs without the second names of one object."""
    seen: dict[int, tuple[str, Thing]] = {}
    for name, thing in named.items():
        seen.setdefault(id(thing), (name, thing))
    return list(seen.values())
