"""Apply a data set's transforms once a batch instead of once a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof, Together
from accel.errors import Reason
from accel.techniques.data.dataset_transforms import steps_of
from accel.techniques.data.each_batch import after_each_batch
from accel.techniques.data.loader_iterators import IteratorMaker, changed_attributes, changed_iterators
from accel.techniques.data.sample_probe import unreadable, why_not_read
from accel.techniques.data.samples_to_keep import is_cache, samples_to_keep
from accel.techniques.data.transforms_of_a_batch import (
    EACH_ITS_OWN,
    TransformsOfABatch,
    transforms_of_a_batch,
)
from accel.techniques.model.model_call import distinct
from accel.techniques.source.plain_source import plain_source
from accel.techniques.source.user_names import nothing_seen

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class BatchedTransforms:
    """Apply a data set's torchvision transforms once a batch instead of once a sample.

    What it does
        Takes the last transforms of each DataLoader's data set, from the first that can be applied to a whole batch,
        and applies them where the batch is collated, in worker processes if there are some; on the GPU where the model
        is on one, which gets the images as bytes. Each image still gets random numbers of its own: flips, angles, crops
        and blurs are drawn one an image. What cannot be done to a batch stays where it is, and what comes before it:
        a few images go both ways first, and have to come out alike.
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

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No DataLoader, or one whose data set has no transforms that can be applied to a batch."""
        replica = workload.objects()
        return nothing_seen(workload, "loaders") or [
            reason
            for name, loader in distinct(replica.loaders)
            for reason in _why_not_loader(name, loader, replica.device)
        ]

    def why_not_beside(self, plan: Together, workload: Workload) -> list[Reason]:
        """A cache_dataset that keeps what all transforms give leaves none for the batch."""
        if "cache_dataset" not in plan.names:
            return []
        acts_on = plan.objects_of("cache_dataset")
        return [
            _all_is_kept(name)
            for name, loader in distinct(workload.objects().loaders)
            if (not acts_on or name in acts_on) and not samples_to_keep(loader.dataset).rest
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Take the transforms out of each loader's data set, and put them into its collating or its iterators."""
        with ExitStack() as stack:
            for name, loader in distinct(replica.loaders):
                if not _why_not_loader(name, loader, replica.device):
                    stack.enter_context(_in_batches(loader, replica.device))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many batches were transformed as a whole."""
        collating = [loader.collate_fn for _, loader in distinct(replica.loaders)]
        counts = [int(each.batches) for each in collating if isinstance(each, _Counted)]
        took_effect = len(counts) == len(collating) and sum(counts) > 0
        return Proof(took_effect, f"{sum(counts)} batches were transformed as a whole")

    def as_code(self, workload: Workload) -> str:
        """The transforms for batches as functions, and the lines that put them into each loader."""
        from accel.techniques.data import batched_images, dataset_transforms, each_batch, each_iterator

        replica = workload.objects()
        loaders = {
            name: found
            for name, loader in replica.loaders.items()
            if isinstance(found := transforms_of_a_batch(loader, replica.device), TransformsOfABatch)
        }
        needed = {type(step).__name__ for found in loaders.values() for step in found.moved}
        forms = {name: form.__name__ for name, form in batched_images.FORMS.items() if name in needed}
        unneeded = {form.__name__ for form in batched_images.FORMS.values()} - set(forms.values()) | {"FORMS"}
        on_gpu = any(found.runs_on_gpu for found in loaders.values())
        unneeded |= set() if on_gpu else {"OnDevice"}
        unneeded |= set() if needed & set(EACH_ITS_OWN) else {"each_its_own"}
        parts = ["import functools"] if on_gpu else []
        parts += ["from torchvision.transforms import Compose", plain_source(dataset_transforms), ""]
        parts += [plain_source(batched_images, leave_out=unneeded), ""]
        parts.append(f"_forms = {{{', '.join(f'{name!r}: {form}' for name, form in forms.items())}}}")
        if on_gpu:
            parts += ["", plain_source(each_batch), "", plain_source(each_iterator)]
        for name, found in loaders.items():
            parts += _loader_code(name, found, replica.device)
        return "\n".join(parts) + "\n"


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
def _in_batches(loader: DataLoader[Any], device: str) -> Iterator[None]:
    from torchvision.transforms import Compose

    from accel.techniques.data.batched_images import FORMS, InBatches, OnDevice, image_as_tensor
    from accel.techniques.data.dataset_transforms import with_transform

    found = transforms_of_a_batch(loader, device)
    assert isinstance(found, TransformsOfABatch)  # asked before
    make = partial(OnDevice, device=device) if found.runs_on_gpu else InBatches
    collate = make(loader.collate_fn, found.moved, FORMS, found.position, found.values)
    dataset = with_transform(loader.dataset, Compose([*found.kept, image_as_tensor]))
    with ExitStack() as stack:
        if found.runs_on_gpu:
            stack.enter_context(changed_iterators(loader, partial(_FinishedOnDevice, collate=collate)))
        stack.enter_context(changed_attributes(loader, dataset=dataset, collate_fn=_Counted(collate)))
        yield


def _loader_code(name: str, found: TransformsOfABatch, device: str) -> list[str]:
    last, ending = len(found.moved), f", device={device!r}" if found.runs_on_gpu else ""
    kind = "OnDevice" if found.runs_on_gpu else "InBatches"
    return [
        f"_steps = steps_of({name}.dataset)",
        f'if _steps and type({name}.collate_fn).__name__ != "{kind}":  # a second run of this cell finds it done',
        f"    _source = with_transform({name}.dataset, Compose([*_steps[:-{last}], image_as_tensor]))",
        f"    _collate = {kind}({name}.collate_fn, _steps[-{last}:], _forms, {found.position}, {found.values}{ending})",
        "    # vars(): a DataLoader refuses another data set once it is built.",
        f"    vars({name}).update(dataset=_source, collate_fn=_collate)",
        *(["    _finish = functools.partial(after_each_batch, change=_collate.finished)",
           f"    change_each_iterator({name}, finishes=_finish)"] if found.runs_on_gpu else []),
    ]  # fmt: skip


def _why_not_loader(name: str, loader: DataLoader[Any], device: str) -> list[Reason]:
    if isinstance(loader.collate_fn, _Counted):
        return []  # ours, kept: the reasons below were looked at then
    if reasons := why_not_read(name, loader):
        return reasons
    if is_cache(loader.dataset) and not steps_of(loader.dataset):
        return [_all_is_kept(name)]
    if loader.batch_sampler is None:
        return [
            Reason(
                f"{name} gives samples one by one (batch_size=None)",
                "Give it a batch_size, or leave this off.",
            )
        ]
    try:
        found = transforms_of_a_batch(loader, device)
    except Exception as error:  # whatever the user's own data set or transforms raise
        return [unreadable(name, error)]
    return [Reason(found.because.format(name=name), found.do)] if isinstance(found, Reason) else []


def _all_is_kept(name: str) -> Reason:
    return Reason(
        f"None of {name}'s transforms is random: cache_dataset keeps what all of them give, and none is left for a batch",
        "Leave one of the two off.",
    )
