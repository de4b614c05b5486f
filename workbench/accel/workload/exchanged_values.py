"""Plain values from rank to rank as tensors of bytes: torch's own exchange of objects would unpickle what arrives by a socket."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def from_all_ranks(value: Any) -> list[Any]:
    """Each rank's value, in their order; every rank calls this at the same place.

    >>> from_all_ranks({"step": 40})
    [{'step': 40}, {'step': 40}]

    Values are numbers, texts, tensors and containers of these: they are read with `torch.load(weights_only=True)`.
    """
    import torch
    import torch.distributed as dist

    ranks, mine = range(dist.get_world_size()), _bytes_of(value)
    sizes = [torch.zeros(1, dtype=torch.long, device=mine.device) for _ in ranks]
    dist.all_gather(sizes, torch.tensor([len(mine)], device=mine.device))
    longest = int(max(sizes))
    arrived = [mine.new_empty(longest) for _ in ranks]
    dist.all_gather(arrived, torch.nn.functional.pad(mine, (0, longest - len(mine))))
    return [_value_of(part[: int(size)]) for part, size in zip(arrived, sizes, strict=True)]


def from_first_rank(value: Any) -> Any:
    """Rank 0's value, on every rank; what the others give is not looked at.

    >>> from_first_rank([1 << 20])
    [1048576]
    """
    import torch
    import torch.distributed as dist

    is_first = dist.get_rank() == 0
    mine = _bytes_of(value if is_first else None)
    size = torch.tensor([len(mine)], device=mine.device)
    dist.broadcast(size, 0)
    arrived = mine if is_first else mine.new_empty(int(size))
    dist.broadcast(arrived, 0)
    return _value_of(arrived)


def _bytes_of(value: Any) -> torch.Tensor:
    import torch
    import torch.distributed as dist

    stream = io.BytesIO()
    torch.save(value, stream)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    return torch.frombuffer(stream.getbuffer(), dtype=torch.uint8).to(device)


def _value_of(written: torch.Tensor) -> Any:
    import torch

    return torch.load(io.BytesIO(written.cpu().numpy().tobytes()), map_location="cpu", weights_only=True)
