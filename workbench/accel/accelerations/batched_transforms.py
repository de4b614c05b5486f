"""Apply a data set's transforms once a batch instead of once a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.each_batch import after_each_batch
from accel.accelerations.loader_iterators import (
    IteratorMaker,
    changed_attributes,
    changed_iterators,
    keeps_own_workers,
)
from accel.accelerations.model_call import distinct
from accel.accelerations.plain_source import plain_source
from accel.accelerations.user_names import nothing_seen

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class BatchedTransforms:
    """Apply a data set's torchvision transforms once a batch instead of once a sample.

    What it does
        Takes the last transforms of each DataLoader's data set, from the first that can be applied to a whole batch,
        and applies them where the batch is collated, in worker processes if there are some; on the GPU where there
        is one, which gets the images as bytes. Each image still gets random numbers of its own: flips, angles, crops
        and blurs are drawn one an image. What cannot be done to a batch stays where it is, and what comes before it.
    When it helps
        Where a profile shows time in transforms of small images, whose calls cost more than their arithmetic; with
        cache_dataset, which keeps what comes before the random ones.
    When it hurts
        Random numbers come in another order: other augmentations, equally good ones. Resizing and rotating tensors
        rounds otherwise than PIL does: pixels differ by about one step of 255, and at edges of a turned image by
        more. Large images have nothing to gain on a CPU: of those it takes only as many at once as stay in its
        cache, and PIL resizes and blurs them as fast or faster. Attributes of the data set that are set later are
        not seen. Not measured here yet.
    In plain PyTorch
        augment = v2.Compose([v2.RandomHorizontalFlip(), v2.Normalize(mean, std)])
        for images, labels in loader:
            images = augment(images)  # one decision for the whole batch; what is exported here draws one an image
    References
        https://docs.pytorch.org/vision/stable/transforms.html#performance-considerations
    """

    name: ClassVar[str] = "batched_transforms"
    layer: ClassVar[Layer] = "data"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No DataLoader, or one whose data set has no transforms that can be applied to a batch."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "loaders"):
            return unseen
        return [
            reason for name, loader in distinct(replica.loaders) for reason in _why_not_loader(name, loader)
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Take the transforms out of each loader's data set, and put them into its collating or its iterators."""
        with ExitStack() as stack:
            for name, loader in distinct(replica.loaders):
                if not _why_not_loader(name, loader):
                    stack.enter_context(_in_batches(loader))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many batches were transformed as a whole."""
        collating = [loader.collate_fn for _, loader in distinct(replica.loaders)]
        counts = [int(each.batches) for each in collating if isinstance(each, _Counted)]
        took_effect = len(counts) == len(collating) and sum(counts) > 0
        return Proof(took_effect, f"{sum(counts)} batches were transformed as a whole")

    def as_code(self, workload: Workload) -> str:
        """The transforms for batches as functions, and the lines that put them into each loader."""
        from accel.accelerations import batched_images, dataset_transforms, each_batch

        loaders = {
            name: found
            for name, loader in workload.objects().loaders.items()
            if isinstance(found := _divided(loader), _Divided)
        }
        needed = {type(step).__name__ for found in loaders.values() for step in found.moved}
        forms = {name: form for name, form in batched_images.FORMS.items() if name in needed}
        unneeded = {form.__name__ for form in batched_images.FORMS.values()} - {
            f.__name__ for f in forms.values()
        }
        on_gpu = {_runs_on_gpu(workload.objects().loaders[name], found) for name, found in loaders.items()}
        if True not in on_gpu:
            unneeded |= {"OnDevice"}
        if not any(name in needed for name in _EACH_ITS_OWN):
            unneeded |= {"each_its_own"}
        parts = ["import functools"] if True in on_gpu else []
        parts += ["from torchvision.transforms import Compose", plain_source(dataset_transforms), ""]
        parts += [plain_source(batched_images, leave_out=unneeded | {"FORMS"}), ""]
        parts.append(
            f"_forms = {{{', '.join(f'{name!r}: {form.__name__}' for name, form in forms.items())}}}"
        )
        if True in on_gpu:
            parts += ["", plain_source(each_batch), "", _ITERATOR_CODE]
        for name, found in loaders.items():
            parts += _loader_code(name, found, _runs_on_gpu(workload.objects().loaders[name], found))
        return "\n".join(parts) + "\n"


_EACH_ITS_OWN = ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomGrayscale")
_TAKE_A_BATCH = (
    "Normalize",
    "CenterCrop",
    "Resize",
    "Pad",
    "Grayscale",
    "ConvertImageDtype",
    "ToDtype",
    "Identity",
)
_FIX_THE_SIZE = (
    "CenterCrop",
    "RandomCrop",
    "Resize",
)  # a Resize to one number keeps the proportions: asked below
_MAKE_TENSORS = ("ToTensor", "PILToTensor", "ToImage")
_VALUES_AT_ONCE = 2**20  # 341 images of 3×32×32, 6 of 3×224×224: larger pieces go through memory at each step
_PROBED = 8  # samples whose sizes are compared; should another differ, its batch is transformed one by one

_ITERATOR_CODE = """\
def iterator_finishing(make_iterator, collate):
    iterator = make_iterator()
    after_each_batch(iterator, collate.finished)
    return iterator
"""


class _Divided(NamedTuple):
    """The transforms that stay with the samples, those that move to the batch, where in a sample the image is."""

    kept: list[Any]
    moved: list[Any]
    position: int
    at_once: int


class _Counted:
    """A `collate_fn` that counts its batches where all processes see it."""

    def __init__(self, collate: Any) -> None:
        import torch

        self.collate = collate
        self.batches = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def __call__(self, samples: Any) -> Any:
        self.batches += 1
        return self.collate(samples)


class _FinishedOnDevice(IteratorMaker):
    """Applies the transforms to each batch in the training process, where the GPU is."""

    def __init__(
        self, loader: DataLoader[Any], inner: Callable[[], Any] | None = None, collate: Any = None
    ) -> None:
        super().__init__(loader, inner)
        self._collate = collate

    def change(self, iterator: Any) -> None:
        after_each_batch(iterator, self._collate.finished)

    def knobs(self) -> tuple[Any, ...]:
        return (self._collate,)


@contextmanager
def _in_batches(loader: DataLoader[Any]) -> Iterator[None]:
    from torchvision.transforms import Compose

    from accel.accelerations.batched_images import FORMS, InBatches, OnDevice, image_as_tensor
    from accel.accelerations.dataset_transforms import with_transform

    found = _divided(loader)
    assert isinstance(found, _Divided)  # asked before
    on_gpu = _runs_on_gpu(loader, found)
    collate = (OnDevice if on_gpu else InBatches)(
        loader.collate_fn, found.moved, FORMS, found.position, found.at_once
    )
    dataset = with_transform(loader.dataset, Compose([*found.kept, image_as_tensor]))
    with ExitStack() as stack:
        if on_gpu:
            stack.enter_context(changed_iterators(loader, partial(_FinishedOnDevice, collate=collate)))
        stack.enter_context(changed_attributes(loader, dataset=dataset, collate_fn=_Counted(collate)))
        yield


def _loader_code(name: str, found: _Divided, on_gpu: bool) -> list[str]:
    last = len(found.moved)
    kind = "OnDevice" if on_gpu else "InBatches"
    return [
        f"_steps = steps_of({name}.dataset)",
        "if _steps:",
        f"    _source = with_transform({name}.dataset, Compose([*_steps[:-{last}], image_as_tensor]))",
        f"    _collate = {kind}({name}.collate_fn, _steps[-{last}:], _forms, position={found.position}, at_once={found.at_once})",
        "    # vars(): a DataLoader refuses another data set once it is built.",
        f"    vars({name}).update(dataset=_source, collate_fn=_collate)",
        *([f"    {name}._get_iterator = functools.partial(iterator_finishing, {name}._get_iterator, _collate)"]
          if on_gpu else []),
    ]  # fmt: skip


def _why_not_loader(name: str, loader: DataLoader[Any]) -> list[str]:
    from torch.utils.data import IterableDataset

    if isinstance(loader.collate_fn, _Counted):
        return []  # ours, kept: the reasons below were looked at then
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        return [f"The data set of {name} has no samples with an index and a number of them. "
                "Use a data set with __getitem__ and __len__, or leave this off."]  # fmt: skip
    if loader.batch_sampler is None:
        return [
            f"{name} gives samples one by one (batch_size=None). Give it a batch_size, or leave this off."
        ]
    if keeps_own_workers(loader):
        return [f"{name} keeps worker processes of its own (persistent_workers=True), which have their transforms already. "
                "Build it without, or leave this off."]  # fmt: skip
    try:
        found = _divided(loader)
    except Exception as error:  # whatever the user's own data set or transforms raise
        return [f"A sample of {name} could not be read ({type(error).__name__}: {error}). "
                f"Look at what {name}.dataset[0] gives, or leave this off."]  # fmt: skip
    return [f"{found[0].format(name=name)} {found[1]}"] if not isinstance(found, _Divided) else []


def _divided(loader: DataLoader[Any]) -> _Divided | tuple[str, str]:
    """Which transforms can move; or why none can, and what to do."""
    from torch.utils._pytree import tree_leaves

    from accel.accelerations.dataset_transforms import steps_of
    from accel.accelerations.sample_probe import nothing_drawn, position_of_image

    dataset: Any = loader.dataset
    steps = steps_of(dataset)
    if not steps or not len(dataset):
        return (
            "The data set of {name} has no transforms in an attribute `transform`.",
            "Put them there, or leave this off.",
        )
    first = len(steps)
    while first and _takes_a_batch(steps[first - 1]):
        first -= 1
    if first == len(steps):
        return (f"{_named(steps[-1])} is the last transform of {{name}}, and cannot be applied to a batch here.",
                "Put transforms that can (flips, crops, rotation, blur, Normalize) behind it, or leave this off.")  # fmt: skip
    with nothing_drawn():
        images = _images_before(dataset, steps, first)
        while len({_size(image) for image in images}) > 1:
            fixing = [n for n in range(first, len(steps)) if _fixes_the_size(steps[n])]
            first = fixing[0] + 1 if fixing else len(steps)
            if first == len(steps):
                return ("The images of {name} have different sizes up to the end of its transforms.",
                        "Put a CenterCrop, RandomCrop or Resize((height, width)) before the other transforms, or leave this off."
                        )  # fmt: skip
            images = _images_before(dataset, steps, first)
        position = position_of_image(dataset)
        values = (
            1 if position is None else max(_values(images[0]), _values(tree_leaves(dataset[0])[position]))
        )
    moved = steps[first:]
    if any(_size(image) is None for image in images):
        return ("What the transforms of {name} get is neither a tensor nor a grey or RGB image.",
                "Convert images to RGB in the data set, or leave this off.")  # fmt: skip
    if hasattr(images[0], "mode") and not any(_named(step) in _MAKE_TENSORS for step in moved):
        return "The transforms of {name} give no tensors.", "Add a ToTensor to them, or leave this off."
    if position is None:
        return ("The data set of {name} changes images after its transforms.",
                "Move what it does into the transforms, or leave this off.")  # fmt: skip
    return _Divided(steps[:first], moved, position, max(1, _VALUES_AT_ONCE // values))


def _values(image: Any) -> int:
    import torch

    return image.numel() if isinstance(image, torch.Tensor) else 1


def _named(step: Any) -> str:
    from accel.accelerations.sample_probe import name_of_step

    return name_of_step(step)


def _takes_a_batch(step: Any) -> bool:
    """Whether a transform is one of torchvision's that take a batch, or have a form here that does."""
    from accel.accelerations.batched_images import FORMS

    kind = type(step).__name__
    if not type(step).__module__.startswith("torchvision.transforms"):
        return False
    if kind in ("RandomCrop", "RandomRotation"):
        mode = getattr(
            getattr(step, "interpolation", None), "value", getattr(step, "interpolation", "nearest")
        )
        odd = getattr(step, "expand", False) or getattr(step, "pad_if_needed", False)
        odd = odd or getattr(step, "center", None) is not None or step.fill not in (0, None)
        return (
            not odd
            and getattr(step, "padding_mode", "constant") == "constant"
            and mode in ("nearest", "bilinear")
        )
    return kind in FORMS or kind in _TAKE_A_BATCH


def _fixes_the_size(step: Any) -> bool:
    size = getattr(step, "size", None)
    whole = type(step).__name__ != "Resize" or (isinstance(size, (list, tuple)) and len(size) == 2)
    return type(step).__name__ in _FIX_THE_SIZE and whole


def _images_before(dataset: Any, steps: list[Any], first: int) -> list[Any]:
    """What a few samples are like before the transform of that number."""
    from accel.accelerations.sample_probe import Steps, spread, untransformed

    apply = Steps(steps[:first])
    return [apply(untransformed(dataset, index)) for index in spread(len(dataset), _PROBED)]


def _size(image: Any) -> tuple[Any, ...] | None:
    """Channels and sides; None for what cannot become a batch."""
    import torch

    if isinstance(image, torch.Tensor):
        return tuple(image.shape) if image.dim() == 3 and image.device.type == "cpu" else None
    return (image.mode, *image.size) if getattr(image, "mode", None) in ("L", "RGB") else None


def _runs_on_gpu(loader: DataLoader[Any], found: _Divided) -> bool:
    """Whether batches can be transformed in the training process, on its GPU: their parts must be where we look for them."""
    import torch
    from torch.utils._pytree import tree_leaves
    from torch.utils.data import default_collate

    if not torch.cuda.is_available() or loader.collate_fn is not default_collate:
        return False
    from accel.accelerations.sample_probe import nothing_drawn

    with nothing_drawn():
        before = tree_leaves(loader.dataset[0])[: found.position]
    return not any(
        isinstance(part, (str, bytes)) for part in before
    )  # a batch has a list of texts, not one part
