"""A labelled set of images that a DataLoader can read: whole in memory, standardised image by image."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import interpolate
from torch.utils.data import Dataset


@dataclass(frozen=True, eq=False)
class ImageSet(Dataset[tuple[torch.Tensor, int]]):
    """Images with labels; an item is a float tensor (channels, height, width), standardised, and its class.

    >>> loader = DataLoader(load_dataset("digits").repeated(10), batch_size=64, shuffle=True)

    `images` is uint8, (count, channels, height, width); `mean` and `deviation` belong to its scale, 0 to 255.
    """

    name: str
    images: torch.Tensor
    labels: torch.Tensor
    classes: int
    mean: float
    deviation: float
    repeats: int = 1

    def __len__(self) -> int:
        return self.repeats * len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(index)  # ends a plain `for image, label in image_set`
        index %= len(self.images)
        return (self.images[index].float() - self.mean) / self.deviation, int(self.labels[index])

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of one image."""
        return tuple(self.images.shape[1:])

    @property
    def identity(self) -> str:
        """Name, size and hash of images and labels: what a result was measured on."""
        found = hashlib.sha256(self.images.contiguous().numpy().tobytes() + self.labels.numpy().tobytes())
        return f"{self!r}, sha256 {found.hexdigest()[:12]}"

    def repeated(self, times: int) -> ImageSet:
        """The same images `times` times over, for longer epochs; nothing is copied."""
        return replace(self, repeats=self.repeats * times)

    def shaped(self, shape: tuple[int, int, int]) -> ImageSet:
        """The images scaled bilinearly to (channels, height, width); a grey image is repeated for each colour."""
        channels, height, width = shape
        images = self.images
        if images.shape[2:] != (height, width):
            thousands = [images[start : start + 1000].float() for start in range(0, len(images), 1000)]
            parts = [interpolate(part, (height, width), mode="bilinear") for part in thousands]
            images = torch.cat([part.round().to(torch.uint8) for part in parts])
        if images.shape[1] != channels:
            images = images.float().mean(dim=1, keepdim=True).to(torch.uint8).expand(-1, channels, -1, -1)
        return replace(self, images=images.contiguous())

    def __repr__(self) -> str:
        shape = "×".join(str(size) for size in self.shape)
        times = f" ({len(self.images):,} repeated {self.repeats} times)" if self.repeats > 1 else ""
        return f"{self.name}: {len(self):,} images of {shape}, {self.classes} classes{times}"
