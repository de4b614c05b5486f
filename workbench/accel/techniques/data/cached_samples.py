"""Data sets that keep what was read once: sample by sample, or the whole set as tensors.

The classes below are also what `%accel export` writes into a cell: they use torch, numpy and the standard library only.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten


class CachedSamples(torch.utils.data.Dataset[Any]):
    """Reads each sample of `source` once, and keeps it in memory that worker processes share.

    `transform` is applied to each sample anew: to the part of it at `position`. A sample of another shape or kind than the
    first is not kept, and read each time.
    """

    def __init__(self, source: Any, transform: Any = None, position: int = 0) -> None:
        self.source, self.transform, self.position = source, transform, position
        self.like, self.structure = tree_flatten(source[0])
        self.formats = [format_of(part) for part in self.like]
        self.ends = numpy.cumsum([as_array(part).nbytes for part in self.like])
        # Anonymous shared memory, which takes room only where it is written: the limit on /dev/shm does not count.
        count, width = len(source), int(self.ends[-1])
        memory = torch.frombuffer(mmap.mmap(-1, count * (width + 1)), dtype=torch.uint8)
        # Of is_kept, 1 stands for a sample that is kept, 2 for one that was read and cannot be.
        self.is_kept, self.rows = memory[:count], memory[count:].view(count, width)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        parts, structure = self.read(index)
        if self.transform is not None:
            parts[self.position] = self.transform(parts[self.position])
        return tree_unflatten(parts, structure)

    def read(self, index: int) -> tuple[list[Any], Any]:
        """The parts of a sample before the transform, and how they belong together."""
        if self.is_kept[index] == 1:
            return self.unpacked(self.rows[index].numpy()), self.structure
        parts, structure = tree_flatten(self.source[index])
        fits = structure == self.structure and self.formats == [format_of(part) for part in parts]
        if fits:
            row = b"".join(as_array(part).tobytes() for part in parts)
            self.rows[index] = torch.frombuffer(bytearray(row), dtype=torch.uint8)
        self.is_kept[index] = 1 if fits else 2
        return parts, structure

    def unpacked(self, row: Any) -> list[Any]:
        """The parts of a sample from its bytes."""
        starts = [0, *self.ends[:-1]]
        arrays = [
            numpy.frombuffer(row[start:end].tobytes(), dtype).reshape(shape)
            for start, end, (_, dtype, shape, _) in zip(starts, self.ends, self.formats, strict=True)
        ]
        return [from_array(array, like) for array, like in zip(arrays, self.like, strict=True)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "source" not in vars(self):
            raise AttributeError(name)
        return getattr(self.source, name)  # classes, targets …


class SamplesOnDevice(torch.utils.data.Dataset[Any]):
    """Holds all samples of `source` as tensors on one device, and gives whole batches of them.

    It is read when the first batch is asked for. The loader's `collate_fn` must be `as_it_is`.
    """

    transform = None  # nothing is left to be applied

    def __init__(self, source: Any, device: Any) -> None:
        self.source, self.device = source, device
        self.parts: list[torch.Tensor] = []

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        return self.source[index]

    def __getitems__(self, indices: list[int]) -> Any:
        if not self.parts:
            self.read()
        chosen = torch.tensor(indices, device=self.device)
        return tree_unflatten([part[chosen] for part in self.parts], self.structure)

    def read(self) -> None:
        """Read everything, in pieces, to its place: two copies of the whole set would not fit where one does."""
        collate, count = torch.utils.data.default_collate, len(self.source)
        for start in range(0, count, 512):
            stop = min(start + 512, count)
            pieces, structure = tree_flatten(collate([self.source[i] for i in range(start, stop)]))
            if not start:
                whole = [part.new_empty((count, *part.shape[1:]), device=self.device) for part in pieces]
            for part, piece in zip(whole, pieces, strict=True):
                if (piece.shape[1:], piece.dtype) != (part.shape[1:], part.dtype):
                    raise ValueError(
                        f"the samples from {start} to {stop} have another shape or type than the first"
                    )
                part[start:stop] = piece
        self.structure, self.parts = structure, whole

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "source" not in vars(self):
            raise AttributeError(name)
        return getattr(self.source, name)


def as_it_is(batch: Any) -> Any:
    """What a batch that is one already needs to be collated."""
    return batch


def as_array(part: Any) -> Any:
    """A tensor, an image, an array or a number as a numpy array."""
    return part.detach().numpy() if isinstance(part, torch.Tensor) else numpy.asarray(part)


def format_of(part: Any) -> tuple[Any, ...]:
    """What all samples that are kept have in common."""
    layout: Any = part.stride() if isinstance(part, torch.Tensor) else getattr(part, "mode", None)
    array = as_array(part)
    return type(part), array.dtype, array.shape, layout


def from_array(array: Any, like: Any) -> Any:
    """The array as what `like` is; memory of its own, so that nothing changes what is kept."""
    if isinstance(like, torch.Tensor):
        # An expanded tensor (grey shown as red, green and blue) has one place for several numbers.
        is_dense = torch.ops.aten.is_non_overlapping_and_dense(like)
        strides = like.stride() if is_dense else torch.empty(like.shape, device="meta").stride()
        tensor = torch.empty_strided(like.shape, strides, dtype=like.dtype)
        return tensor.copy_(torch.from_numpy(array.copy())).as_subclass(type(like))
    if isinstance(like, numpy.ndarray):
        return array.copy()
    if isinstance(like, numpy.generic):
        return array[()]
    if isinstance(like, (bool, int, float)):
        return array.item()
    import PIL.Image

    return PIL.Image.fromarray(array)
