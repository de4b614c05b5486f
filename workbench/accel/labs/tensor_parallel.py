"""One layer's work on several ranks: a weight matrix cut by columns, the next by rows. To be run in every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import nn


class TensorParallelRank(NamedTuple):
    """What one rank held of the layer, and how far its results were from those of the whole layer."""

    rank: int
    shapes: dict[str, tuple[int, ...]]  # of this rank's part of each parameter
    part_bytes: int
    whole_bytes: int
    output_difference: float
    gradient_difference: float


def tensor_parallel(width: int = 64, samples: int = 8) -> TensorParallelRank:
    """A two-layer perceptron cut in two, beside the same one uncut.

    >>> accel.RankPool(2).run(tensor_parallel)[0].output_difference < 1e-10
    True

    The first layer is cut by output features and the second by input features, so that the activation between them never
    has to be put together: one sum over the ranks at the end of forward, and one of the input's gradient in backward.
    """
    import copy

    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(0)  # the same weights and inputs in every rank
    whole = perceptron(width)
    part = copy.deepcopy(whole)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(part, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})

    inputs = torch.randn(samples, width, dtype=torch.float64)
    expected, output = whole(inputs), part(inputs)
    expected.square().mean().backward()
    output.square().mean().backward()
    return TensorParallelRank(
        rank=dist.get_rank(),
        shapes={name: tuple(local_part(p).shape) for name, p in part.named_parameters()},
        part_bytes=sum(local_part(p).nbytes for p in part.parameters()),
        whole_bytes=sum(p.nbytes for p in whole.parameters()),
        output_difference=largest(output - expected),
        gradient_difference=max(
            largest(whole_tensor(p.grad) - whole_tensor(q.grad))
            for p, q in zip(part.parameters(), whole.parameters(), strict=True)
        ),
    )


def perceptron(width: int) -> nn.Sequential:
    """Two linear layers, four times as wide between them, in float64: so that only real differences show.

    >>> perceptron(8)[0].out_features
    32
    """
    from torch import nn

    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).double()


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of a tensor that may be spread over ranks.

    >>> local_part(parameter).shape
    torch.Size([32, 8])
    """
    from torch.distributed.tensor import DTensor

    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole_tensor(tensor: torch.Tensor | None) -> torch.Tensor:
    """All of a tensor that may be spread over ranks: every rank has to ask for it.

    >>> whole_tensor(parameter.grad).shape
    torch.Size([64, 8])
    """
    from torch.distributed.tensor import DTensor

    assert tensor is not None
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def largest(difference: torch.Tensor) -> float:
    """The largest absolute value in it.

    >>> largest(torch.tensor([1.0, -3.0]))
    3.0
    """
    return float(difference.detach().abs().max())
