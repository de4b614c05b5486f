"""BatchNorm that normalises the samples of all ranks together, on CPUs as well, where torch's SyncBatchNorm refuses to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def normalising_together(is_in_parts: Callable[[], bool]) -> Callable[[Any], Any]:
    """Makes of `F.batch_norm` one that takes mean and variance over all ranks, where each has other samples.

    >>> F.batch_norm = normalising_together(lambda: loops.is_in_parts)(F.batch_norm)

    Every layer ends up there, whatever its class, and stays the user's own.
    """

    def make(original: Any) -> Any:
        from torch._compile import _disable_dynamo  # torch.compiler.disable imports dynamo

        def batch_norm(
            input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
            training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
        ) -> Any:  # fmt: skip
            if not (training and is_in_parts()):
                return original(input, running_mean, running_var, weight, bias, training, momentum, eps)
            normalised = _on_gpu if input.is_cuda else _normalised
            return normalised(input, weight, bias, running_mean, running_var, eps, momentum)

        return _disable_dynamo(functools.wraps(original)(batch_norm))

    return make


def _on_gpu(*args: Any) -> Any:
    """By torch's own kernels."""
    import torch.distributed as dist
    from torch.nn.modules._functions import SyncBatchNorm

    return SyncBatchNorm.apply(*args, dist.group.WORLD, dist.get_world_size())


def _normalised(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, momentum: float
) -> Any:
    """In plain operations, which autograd follows; two passes, as the difference of large sums would be inexact."""
    import torch

    x = input if input.dtype == torch.float64 else input.float()  # reduced precision adds up badly
    places = [place for place in range(x.dim()) if place != 1]
    shape = [-1 if place == 1 else 1 for place in range(x.dim())]
    own_count = x.new_full((1,), x.numel() // x.size(1))
    sums = _sum_over_ranks(torch.cat([x.sum(places), own_count]))
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centred = x - mean.view(shape)
    variance = _sum_over_ranks(centred.pow(2).sum(places)) / count
    with torch.no_grad():
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((variance * count / (count - 1)).to(running_var.dtype), momentum)
    result = centred * (variance + eps).rsqrt().view(shape)
    if weight is not None:
        result = result * weight.view(shape)
    if bias is not None:
        result = result + bias.view(shape)
    return result.to(input.dtype)


def _sum_over_ranks(tensor: Any) -> Any:
    return _function().apply(tensor)


@functools.cache
def _function() -> Any:
    import torch
    import torch.distributed as dist

    class SumOverRanks(torch.autograd.Function):
        """A sum over ranks, whose gradient is the sum of theirs."""

        @staticmethod
        def forward(context: Any, tensor: Any) -> Any:
            total = tensor.contiguous().clone()
            dist.all_reduce(total)
            return total

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return _sum_over_ranks(gradient)

    return SumOverRanks
