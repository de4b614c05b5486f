"""NNI as the engine of pruning: it runs in an environment of its own and answers with what stays of each tensor."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from accel.environments.user_folders import own_folders
from accel.environments.wanted import environment_with, no_environment
from accel.errors import AccelError, Reason
from accel.processes.channel import Closed
from accel.processes.child import Child, how_it_ended
from accel.processes.child_main import Hello
from accel.processes.failure import Failed
from accel.processes.kernel_folder import KernelFolder
from accel.techniques.pruning.excluded_layers import layers_in

if TYPE_CHECKING:
    import torch

    from accel.techniques.pruning.pruning_plan import Criterion, Types

MODULE, PACKAGE = "accel.techniques.pruning.nni_process", "nni"
_START_S, _PRUNING_S = 120.0, 600.0
_LARGEST = 1 << 24  # positions that float32 can number: NNI's smaller layers have it
KINDS: dict[str, tuple[str, ...]] = {
    "conv": ("Conv1d", "Conv2d", "Conv3d"), "linear": ("Linear",), "all": ("Conv1d", "Conv2d", "Conv3d", "Linear"),
}  # fmt: skip


class Asked(msgspec.Struct, tag="prune", frozen=True):
    """Kernel → process: prune the model that follows, with the inputs of a call."""

    sparsity: float
    kinds: list[str]
    exclude: list[str]  # full names of layers
    criterion: str
    import_path: list[str]  # where the user's own modules lie


class Left(msgspec.Struct, tag="left", frozen=True):
    """Process → kernel: of each tensor that lost something the indices that stay, by dimension, and the widths of modules."""

    kept: dict[str, list[list[int]]]
    widths: dict[str, dict[str, int | list[int]]]


def prune_numbered(
    numbered: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], sparsity: float, types: Types,
    exclude: tuple[str, ...], criterion: Criterion,
) -> None:  # fmt: skip
    """Prune a copy of a model, as `torch_pruning_engine.prune_numbered` does: its tensors hold numbers of positions then.

    >>> prune_numbered(numbered, (images,), {}, sparsity=0.5, types="conv", exclude=(), criterion="l1")
    """
    import torch

    asked = Asked(
        sparsity, list(KINDS[types]), layers_in(numbered, exclude), criterion, own_folders([*sys.path])
    )
    left = _left(numbered, args, kwargs, asked)
    for name, tensor in [*numbered.named_parameters(), *numbered.named_buffers()]:
        numbers = torch.arange(tensor.numel(), dtype=torch.float64).view(tensor.shape)
        for dim, indices in enumerate(left.kept.get(name, [])):
            numbers = numbers.index_select(dim, torch.tensor(indices))
        tensor.data = numbers
    for path, widths in left.widths.items():
        new = {name: tuple(value) if isinstance(value, list) else value for name, value in widths.items()}
        vars(numbered.get_submodule(path)).update(new)


def why_not_nni(model: torch.nn.Module, kwargs: Mapping[str, Any]) -> Reason | None:
    """What NNI cannot follow, by what is known before its process starts; None when nothing is."""
    if kwargs:
        return Reason(
            "NNI follows calls with positional arguments only",
            'Call the model without names, as model(x); or use engine="torch_pruning".',
        )
    for name, tensor in model.named_parameters():
        if tensor.numel() > _LARGEST:
            return Reason(
                f"{name} has more than {_LARGEST:,} numbers, and NNI's way home ends there",
                'Use engine="torch_pruning".',
            )
    return None


def _left(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], asked: Asked) -> Left:
    """What the process of the environment answers."""
    from accel.workload.memory_file import MemoryFile
    from accel.workload.shipping import dump

    environment = environment_with(PACKAGE)
    if environment is None:
        raise AccelError(
            'prune(engine="nni")', because=(why := no_environment("NNI", PACKAGE)).because, do=why.do
        )
    if (reason := why_not_nni(model, kwargs)) is not None:
        raise AccelError('prune(engine="nni")', because=reason.because, do=reason.do)
    with ExitStack() as undo:
        memory = MemoryFile()
        undo.callback(memory.close)
        blob = dump((model, args, dict(kwargs)), memory)
        memory.seal()
        child = Child(
            MODULE, incoming=Hello | Left | Failed, folder=KernelFolder("prune"), start=environment.start
        )
        undo.callback(child.close)
        waits_s = _START_S
        try:
            hello, _, _ = child.channel.receive(waits_s)
            if isinstance(hello, Hello):
                hello.check_python(environment.name)
            waits_s = _PRUNING_S
            child.channel.send(asked, blob, memory.descriptor)
            answer, _, _ = child.channel.receive(waits_s)
        except TimeoutError:
            what = "start" if waits_s == _START_S else "answer"
            raise _refused(f"NNI's process did not {what} within {waits_s:.0f} s") from None
        except Closed:
            ended = how_it_ended(child.exit_status(), ran_cell=False)
            raise _refused(f"{ended}: {child.output.text[-400:].strip()}") from None
    if isinstance(answer, Left):
        return answer
    raise _refused(f"NNI cannot follow the model ({answer.because or answer.what})")


def _refused(because: str) -> AccelError:
    return AccelError(
        'prune(engine="nni")', because=because, do='Use engine="torch_pruning", which follows more models.'
    )


def indices_of(numbers: Any, shape: Any) -> list[list[int]]:
    """The indices that stayed in each dimension, from the numbers of the positions that stayed.

    >>> indices_of(torch.tensor([[0., 2.], [6., 8.]]), (3, 3))
    [[0, 2], [0, 2]]
    """
    found = []
    for dim, size in enumerate(shape):
        row = numbers[tuple(slice(None) if other == dim else 0 for other in range(len(shape)))].long()
        found.append(((row // math.prod(shape[dim + 1 :])) % size).tolist())
    return found
