"""Gradients of a list of parameters made the mean over all ranks, a few large messages at a time."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

_BUCKET_BYTES = 25 << 20  # as DDP's


def average(parameters: Sequence[Any], local: Container[int]) -> dict[int, int]:
    """Average the gradients of those that are `local` (by id) on any rank; gives their ids, and on how many ranks they were.

    >>> average(list(model.parameters()), local={id(p) for p in model.parameters()})

    Every rank calls this at the same place with the same parameters; what one rank has a gradient of and another has not counts
    as zeros there. That some gradients are means already does no harm: the mean of equal numbers is that number.
    """
    import torch
    import torch.distributed as dist

    flags = torch.tensor([id(p) in local for p in parameters], dtype=torch.int32)
    flags = flags.to(parameters[0].device)  # NCCL exchanges nothing that lies on the CPU
    dist.all_reduce(flags)
    counts = flags.tolist()
    chosen = [p for p, count in zip(parameters, counts, strict=True) if count]
    for p in chosen:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    with torch.no_grad():
        average_tensors([p.grad for p in chosen])
    return {id(p): count for p, count in zip(parameters, counts, strict=True) if count}


def average_tensors(tensors: Sequence[Any]) -> None:
    """Make each tensor the mean over all ranks, in place.

    >>> average_tensors([p.grad for p in model.parameters()])
    """
    import torch
    import torch.distributed as dist
    from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

    world_size = dist.get_world_size()
    for tensor in tensors:
        if tensor.is_sparse:
            dist.all_reduce(tensor.div_(world_size))
    for bucket in _buckets([each for each in tensors if not each.is_sparse]):
        flat = _flatten_dense_tensors(bucket).div_(world_size)  # type: ignore[no-untyped-call]
        dist.all_reduce(flat)
        parts: Any = _unflatten_dense_tensors(flat, bucket)  # type: ignore[no-untyped-call]
        torch._foreach_copy_(bucket, parts)


def equal_on_all_ranks(tensors: Sequence[Any]) -> list[Any]:
    """The tensors whose sums are equal on every rank; all ranks must call this at the same point.

    >>> equal_on_all_ranks([weight])
    """
    import torch
    import torch.distributed as dist

    if not tensors:
        return []
    with torch.no_grad():
        sums = torch.stack([
            torch.stack([part.double().sum(), part.double().square().sum()]).to(tensors[0].device)
            for part in (each.detach().abs() if each.is_complex() else each.detach() for each in tensors)
        ])  # fmt: skip
    lowest, highest = sums.clone(), sums.clone()
    dist.all_reduce(lowest, dist.ReduceOp.MIN)
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    return [
        each for each, is_equal in zip(tensors, (lowest == highest).all(1).tolist(), strict=True) if is_equal
    ]


def send_to_all(tensors: Sequence[Any]) -> None:
    """Give all ranks what rank 0 has in these tensors.

    >>> send_to_all(list(model.buffers()))

    What is equal already is not written: a backward pass that is to come may need it unchanged.
    """
    import torch
    import torch.distributed as dist
    from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

    with torch.no_grad():
        for bucket in _buckets([each.detach() for each in tensors]):
            flat = _flatten_dense_tensors(bucket)  # type: ignore[no-untyped-call]
            dist.broadcast(flat, 0)
            if dist.get_rank():
                for mine, theirs in zip(bucket, _unflatten_dense_tensors(flat, bucket), strict=True):  # type: ignore[no-untyped-call]
                    if not torch.equal(mine, theirs):
                        mine.copy_(theirs)


def _buckets(tensors: Sequence[Any]) -> Iterator[list[Any]]:
    """Neighbours of one type and device, as many as fit into a message."""
    bucket: list[Any] = []
    size = 0
    for tensor in tensors:
        is_alike = not bucket or (tensor.dtype, tensor.device) == (bucket[0].dtype, bucket[0].device)
        if bucket and (not is_alike or size > _BUCKET_BYTES):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel() * tensor.element_size()
    if bucket:
        yield bucket


def weighted(outputs: Any, gradients: Any, weight: float) -> tuple[Any, ...]:
    """Gradients to begin with, of losses that are means over this rank's part."""
    import torch

    def one(output: Any, gradient: Any) -> Any:
        if not isinstance(output, torch.Tensor) or output.numel() != 1:
            return gradient
        return (torch.ones_like(output) if gradient is None else gradient) * weight

    return tuple(one(output, gradient) for output, gradient in zip(outputs, gradients, strict=True))
