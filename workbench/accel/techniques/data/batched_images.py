"""torchvision's transforms for a whole batch of images, with random numbers of its own for each image.

What is below is also what `%accel export` writes into a cell: it uses torch and torchvision only. FORMS has the functions
that stand for a transform of that name; all others take a batch as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.utils._pytree import tree_flatten, tree_unflatten
from torchvision.transforms import functional as images_functional

VALUES_AT_ONCE = 2**20  # 341 images of 3×32×32, 6 of 3×224×224: larger pieces go through memory at each step


class InBatches:
    """A `collate_fn`: applies transforms to the images of a batch together, then collates as before."""

    def __init__(
        self, collate: Any, steps: list[Any], forms: dict[str, Any], position: int, values: int = 1
    ) -> None:
        self.collate, self.position = collate, position
        self.steps, self.forms = steps, forms
        self.values = values  # of an image when all is done

    def __call__(self, samples: list[Any]) -> Any:
        flat = [tree_flatten(sample) for sample in samples]
        images = [parts[self.position] for parts, _ in flat]
        if have_same_size(images):
            pieces = torch.stack(images).split(self.at_once(images[0]))  # type: ignore[no-untyped-call]
            changed = [image for piece in pieces for image in self.transformed(piece)]
        else:
            changed = [self.transformed(image[None])[0] for image in images]
        for (parts, _), image in zip(flat, changed, strict=True):
            parts[self.position] = image
        return self.collate([tree_unflatten(parts, structure) for parts, structure in flat])

    def at_once(self, image: torch.Tensor) -> int:
        """As many images as stay in the processor's cache, before the transforms and after them."""
        return max(1, VALUES_AT_ONCE // max(self.values, image.numel()))

    def transformed(self, images: torch.Tensor) -> torch.Tensor:
        """The batch after all transforms."""
        for step in self.steps:
            form = self.forms.get(type(step).__name__)
            images = step(images) if form is None else form(step, images)
        return images


class OnDevice(InBatches):
    """A `collate_fn` that leaves the transforms to `finished`, which the training process calls, on the device."""

    def __init__(self, *arguments: Any, device: str) -> None:
        super().__init__(*arguments)
        self.device = device

    def __call__(self, samples: list[Any]) -> Any:
        if have_same_size([tree_flatten(sample)[0][self.position] for sample in samples]):
            return self.collate(samples), False
        return super().__call__(samples), True

    def finished(self, collated: Any) -> Any:
        """The batch, its images on the device and transformed; one that this did not collate is left as it is."""
        match collated:
            case [batch, bool(is_done)]:
                parts, structure = tree_flatten(batch)
            case _:
                return collated
        images = parts[self.position].to(self.device, non_blocking=True)
        parts[self.position] = images if is_done else self.transformed(images)
        return tree_unflatten(parts, structure)


def have_same_size(images: list[Any]) -> bool:
    """Whether the images can be one tensor."""
    return len({image.shape for image in images}) == 1


def image_as_tensor(image: Any) -> Any:
    """A PIL image as a tensor of its bytes; a tensor as it is."""
    if isinstance(image, torch.Tensor):
        return image.as_subclass(torch.Tensor)
    return images_functional.pil_to_tensor(image).contiguous()


def each_its_own(chosen: torch.Tensor, changed: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """`changed` for the chosen images of the batch, the others as they are."""
    return torch.where(chosen.to(images.device)[:, None, None, None], changed, images)


def to_floats(step: Any, images: torch.Tensor) -> torch.Tensor:
    return images.to(torch.get_default_dtype()).div(255) if images.dtype == torch.uint8 else images


def as_they_are(step: Any, images: torch.Tensor) -> torch.Tensor:
    return images


def flip_each_horizontally(step: Any, images: torch.Tensor) -> torch.Tensor:
    return each_its_own(torch.rand(len(images)) < step.p, images.flip(-1), images)


def flip_each_vertically(step: Any, images: torch.Tensor) -> torch.Tensor:
    return each_its_own(torch.rand(len(images)) < step.p, images.flip(-2), images)


def grey_each(step: Any, images: torch.Tensor) -> torch.Tensor:
    chosen = torch.rand(len(images)) < step.p
    grey = images_functional.rgb_to_grayscale(images, num_output_channels=images.shape[1])
    return each_its_own(chosen, grey, images)


def crop_each(step: Any, images: torch.Tensor) -> torch.Tensor:
    padding = step.padding or 0
    if isinstance(padding, int):
        padding = [padding] * 4
    elif len(padding) == 2:
        padding = [padding[0], padding[0], padding[1], padding[1]]
    elif ".v2." not in type(step).__module__:
        padding = [padding[0], padding[2], padding[1], padding[3]]  # v1 says left, top, right, bottom
    images = functional.pad(images, list(padding))
    (count, channels, *size), (height, width) = images.shape, step.size
    top = torch.randint(0, size[0] - height + 1, (count, 1))
    left = torch.randint(0, size[1] - width + 1, (count, 1))
    rows = (top + torch.arange(height)).to(images.device)[:, None, :, None]
    columns = (left + torch.arange(width)).to(images.device)[:, None, None, :]
    index = torch.arange(count, device=images.device)[:, None, None, None]
    return images[index, torch.arange(channels, device=images.device)[:, None, None], rows, columns]


def rotate_each(step: Any, images: torch.Tensor) -> torch.Tensor:
    angles = torch.empty(len(images)).uniform_(*map(float, step.degrees)).deg2rad()
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    height, width = images.shape[-2:]
    rows = [[cos, -sin * height / width, zero], [sin * width / height, cos, zero]]
    matrices = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1).to(images.device)
    exact = images if images.is_floating_point() else images.float()
    grid = functional.affine_grid(matrices.to(exact.dtype), list(images.shape), align_corners=False)
    mode = getattr(step.interpolation, "value", step.interpolation)
    turned = functional.grid_sample(exact, grid, mode=mode, padding_mode="zeros", align_corners=False)
    return turned if images.is_floating_point() else turned.round().to(images.dtype)


def blur_each(step: Any, images: torch.Tensor) -> torch.Tensor:
    count, channels, height, width = images.shape
    sigmas = torch.empty(count, 1).uniform_(*map(float, step.sigma)).to(images.device)
    smooth = (images if images.is_floating_point() else images.float()).reshape(1, -1, height, width)
    across, down = step.kernel_size
    smooth = functional.pad(smooth, [across // 2, across // 2, down // 2, down // 2], mode="reflect")
    for size, shape in ((across, (1, across)), (down, (down, 1))):
        distances = torch.arange(size, device=images.device) - size // 2
        weights = torch.softmax(-0.5 * (distances / sigmas) ** 2, dim=1).to(smooth.dtype)
        weights = weights.repeat_interleave(channels, dim=0).view(-1, 1, *shape)
        smooth = functional.conv2d(smooth, weights, groups=count * channels)
    smooth = smooth.view(images.shape)
    return smooth if images.is_floating_point() else smooth.round().to(images.dtype)


FORMS = {
    "ToTensor": to_floats,
    "PILToTensor": as_they_are,
    "ToImage": as_they_are,
    "ToPureTensor": as_they_are,
    "RandomHorizontalFlip": flip_each_horizontally,
    "RandomVerticalFlip": flip_each_vertically,
    "RandomGrayscale": grey_each,
    "RandomCrop": crop_each,
    "RandomRotation": rotate_each,
    "GaussianBlur": blur_each,
}
