"""A model's double to look into: without weights (fake tensors) or with; the user's own is never touched."""

from __future__ import annotations

import copy
import logging
import os
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, first_line
from accel.workload.generators import generator_states, restore_generators
from accel.workload.user_code import CodeLine

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

HOOKS = ("_forward_hooks", "_forward_pre_hooks")
NOISY_LOGGERS = ("torch.fx.experimental.symbolic_shapes", "torch._export", "torch.export", "torch.onnx")


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The user's own module inside `torch.compile(model)`, DataParallel or DistributedDataParallel."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    while True:
        inside = vars(model).get("_modules", {}).get("_orig_mod")
        if inside is None and isinstance(model, (DataParallel, DistributedDataParallel)):
            inside = model.module
        if inside is None:
            return model
        model = inside


def without_weights(model: torch.nn.Module, mode: FakeTensorMode) -> torch.nn.Module:
    """A copy in evaluation mode whose tensors have shapes and devices but no memory.

    >>> double = without_weights(model, FakeTensorMode(allow_non_fake_inputs=True))
    """
    return copied(model, lambda tensor: as_fake(tensor, mode))


def with_weights(model: torch.nn.Module, *, shared: bool) -> torch.nn.Module:
    """A copy in evaluation mode that can run; with `shared`, on the model's own parameters and buffers: to be read only."""
    return copied(
        model, (lambda tensor: tensor.detach()) if shared else (lambda tensor: tensor.detach().clone())
    )


def as_fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """The tensor without its memory; one that is fake already stays as it is."""
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(tensor, FakeTensor):
        return tensor
    return mode.from_tensor(tensor.detach(), static_shapes=True)


def copied(model: torch.nn.Module, copy_tensor: Callable[[torch.Tensor], torch.Tensor]) -> torch.nn.Module:
    """A deep copy, with `copy_tensor` for every tensor that hangs on a module; tied ones stay tied.

    >>> double = copied(model, lambda tensor: as_fake(tensor, mode))
    """
    from torch import Tensor, nn
    from torch.nn.parameter import is_lazy
    from torch.utils._pytree import tree_leaves

    memo: dict[int, Any] = {}
    held = [
        leaf for module in model.modules() for leaf in tree_leaves(vars(module)) if isinstance(leaf, Tensor)
    ]
    for tensor in held:
        if is_lazy(tensor):
            raise AccelError(
                f"The graph of {type(model).__name__}", because="it has lazy layers without shapes yet",
                do="Call the model on one batch first.",
            )  # fmt: skip
        if id(tensor) not in memo:
            twin = copy_tensor(tensor)
            is_parameter = isinstance(tensor, nn.Parameter)
            memo[id(tensor)] = nn.Parameter(twin, tensor.requires_grad) if is_parameter else twin
    try:
        double = copy.deepcopy(model, memo)
    except Exception as error:  # the user's own __deepcopy__ or __getstate__ may raise anything
        raise AccelError(
            f"The graph of {type(model).__name__}",
            because=f"the model cannot be copied, and yours is not to be touched ({first_line(error)})",
            do="Keep locks, open files, generators and results of earlier calls out of the model's attributes.",
        ) from error
    _drop_own_hooks(double)
    return double.eval()


def _drop_own_hooks(double: torch.nn.Module) -> None:
    """The user's hooks collect or print: they are not to see a run that is none of theirs. Torch's (pruning) stay."""
    for module in double.modules():
        for name in HOOKS:
            hooks = getattr(module, name)
            for key in [key for key, hook in hooks.items() if not _is_torch(hook)]:
                del hooks[key]


def _is_torch(hook: Any) -> bool:
    owner = hook if hasattr(hook, "__qualname__") else type(hook)
    return str(getattr(owner, "__module__", "")).partition(".")[0] == "torch"


@contextmanager
def out_of_sight() -> Iterator[None]:
    """Run a model for ourselves: no output, no warnings, no gradients, and the random numbers as before."""
    import torch

    states = generator_states()
    loggers = [logging.getLogger(name) for name in NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    with ExitStack() as stack:
        stack.callback(restore_generators, states)
        for logger, level in zip(loggers, levels, strict=True):
            stack.callback(logger.setLevel, level)
            logger.setLevel(logging.CRITICAL)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(redirect_stdout(StringIO()))
        stack.enter_context(redirect_stderr(StringIO()))
        stack.enter_context(torch.no_grad())
        yield


def reason_of(error: BaseException) -> str:
    """Why a model could not be followed, in a line, with the line of the user's own code."""
    while isinstance(error.__cause__, Exception):  # torch.onnx wraps what torch.export raised in advice
        error = error.__cause__
    what = f"{type(error).__name__}: {first_line(error)}"
    if "DataDependent" in type(error).__name__:
        what = "its Python code depends on the values in a tensor"
    return what + own_line(error)


def own_line(error: BaseException) -> str:
    """Where in the user's code it happened: the innermost frame that is neither torch's, ours nor Python's own."""
    import torch

    folders = (Path(torch.__file__).parent, Path(__file__).parent.parent, sysconfig.get_path("stdlib"))
    foreign = (*(f"{folder}{os.sep}" for folder in folders), "<string>", "<frozen", "<eval")
    place = ""
    for frame, number in walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(foreign):
            place = f" ({CodeLine(code.co_filename, number)}, in {code.co_name})"
    return place
