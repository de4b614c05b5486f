"""Read and decode each sample once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.data.dataset_transforms import steps_of
from accel.techniques.data.loader_iterators import changed_attributes
from accel.techniques.data.sample_probe import unreadable, why_not_read
from accel.techniques.data.samples_to_keep import (
    is_cache,
    living_cache,
    samples_to_keep,
    size_of_all,
    why_not_kept,
)
from accel.techniques.model.model_call import distinct
from accel.techniques.source.plain_source import plain_source
from accel.techniques.source.user_names import names_of, nothing_seen
from accel.units import size

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Replica, Workload

_SHARE_OF_MEMORY = 0.5  # of what is available; the rest is for training


@dataclass(frozen=True)
class CacheDataset:
    """Read and decode each sample once, and take it from memory in later epochs.

    What it does
        Puts a data set that remembers in the place of each DataLoader's own, from its next epoch on. With
        what="samples", samples are kept as they are before the first random transform (decoded at least), in memory
        that all worker processes share; from there on each transform runs anew, so random augmentation stays random and
        draws what it always drew. With what="device", the whole set is read at the first batch, into one tensor a part on the
        GPU (in main memory where the model is on the CPU), and a batch is one indexing operation. The losses are equal bit for
        bit.
    When it helps
        Where a profile shows time in reading or decoding (files, JPEG, resizing) and the set fits into memory, from
        the second epoch on. what="device": small sets that Python collates sample by sample.
    When it hurts
        It takes as much memory as all samples that are read, of all loaders: an estimate from a few samples has to fit
        into half of what is free. The first epoch is a little slower. Where the first transform is random, what is kept
        are the decoded pictures: nothing is gained if they lay decoded in memory. Files that change
        after they were read, and attributes of the data set that are set later, are not seen. Samples of another shape
        than the first are read each time: where a few that are probed differ it is refused. what="device" needs
        transforms without randomness and the usual collating, and runs without worker processes. Not measured here yet.
    In plain PyTorch
        samples = [dataset[i] for i in range(len(dataset))]
        loader = DataLoader(samples, batch_size=64, shuffle=True)
    References
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.Dataset
        https://github.com/pytorch/pytorch/issues/13246 (why workers share tensors, not Python objects)
    """

    what: Literal["samples", "device"] = "samples"

    name: ClassVar[str] = "cache_dataset"
    layer: ClassVar[Layer] = "data"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    gains_from_second_epoch: ClassVar[bool] = True
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if (
            self.what == "device"
        ):  # other processes cannot read what lies there, and it need not be brought there
            object.__setattr__(self, "conflicts", ("loader_workers", "pin_memory", "prefetch_to_device"))

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No DataLoader, samples that cannot be kept or are random, or not enough memory for all of them together."""
        replica = workload.objects()
        loaders = distinct(replica.loaders)
        reasons = nothing_seen(workload, "loaders")
        reasons += [reason for name, loader in loaders for reason in self._why_not_loader(name, loader)]
        return reasons or self._why_not_memory(loaders, replica.device, machine.available_bytes)

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Give each loader a data set that remembers; the user's own is left as it is."""
        from accel.machine import read_machine

        with ExitStack() as stack:
            for name, loader in distinct(replica.loaders):
                reasons = self._why_not_loader(name, loader) or self._why_not_memory(
                    [(name, loader)], replica.device, read_machine().available_bytes
                )
                if not reasons and not is_cache(loader.dataset):
                    stack.enter_context(
                        changed_attributes(loader, **self._attributes(loader, replica.device))
                    )
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many samples are kept, of those that were read."""
        kept = total = read = size_bytes = 0
        loaders = distinct(replica.loaders)
        remembering: list[Any] = [loader.dataset for _, loader in loaders if is_cache(loader.dataset)]
        for dataset in remembering:
            total += len(dataset)
            if hasattr(dataset, "is_kept"):
                here = int((dataset.is_kept == 1).sum())
                kept, read = kept + here, read + int((dataset.is_kept > 0).sum())
                size_bytes += here * dataset.rows.shape[1]
            elif dataset.parts:
                kept, read = kept + len(dataset), read + len(dataset)
                size_bytes += sum(part.nbytes for part in dataset.parts)
        where = {str(dataset.device) for dataset in remembering if hasattr(dataset, "device")}
        place = " and ".join(sorted(where - {"cpu"})) or "memory"
        evidence = f"{kept} of {total} samples are kept in {place} ({size(size_bytes)})"
        if kept < read:
            evidence += (
                f"; {read - kept} that were read differ from the first in shape or kind, and cannot be"
            )
        return Proof(0 < read < 2 * kept and len(remembering) == len(loaders), evidence)

    def as_code(self, workload: Workload) -> str:
        """The data set that remembers, as a class, and a line a loader that puts it there."""
        from accel.techniques.data import cached_samples, dataset_transforms

        replica = workload.objects()
        if self.what == "device":
            unneeded = ("CachedSamples", "format_of", "from_array", "as_array")
            parts = [plain_source(cached_samples, leave_out=unneeded)]
        else:
            parts = [plain_source(cached_samples, leave_out=("SamplesOnDevice", "as_it_is"))]
            if any(steps_of(loader.dataset) for loader in replica.loaders.values()):
                parts = [
                    "from torchvision.transforms import Compose",
                    *parts,
                    "",
                    plain_source(dataset_transforms),
                ]
        parts += ["", "# vars(): a DataLoader refuses another data set once it is built."]
        for name in names_of(workload, "loaders"):
            if self.what == "device":
                parts += _on_device_code(name, replica.device)
            elif name in replica.loaders:
                parts += _caching_code(name, replica.loaders[name].dataset)
        return "\n".join(parts) + "\n"

    def _attributes(self, loader: DataLoader[Any], device: str) -> dict[str, Any]:
        from accel.techniques.data.cached_samples import CachedSamples, SamplesOnDevice, as_it_is

        dataset: Any = loader.dataset
        if self.what == "device":
            cache = living_cache(loader, f"on {device}", lambda: SamplesOnDevice(dataset, device))
            return {"dataset": cache, "collate_fn": as_it_is, "pin_memory": False}

        def remembering() -> Any:
            found = samples_to_keep(dataset)
            if not found.rest:
                return CachedSamples(dataset)
            from torchvision.transforms import Compose

            return CachedSamples(found.source, Compose(found.rest), found.position)

        return {"dataset": living_cache(loader, "samples", remembering)}

    def _why_not_loader(self, name: str, loader: DataLoader[Any]) -> list[Reason]:
        from torch.utils.data import TensorDataset

        dataset: Any = loader.dataset
        if is_cache(dataset):
            return []  # ours, kept: the reasons below were looked at then
        if reasons := why_not_read(name, loader):
            return reasons
        if self.what == "samples" and isinstance(dataset, (TensorDataset, list, tuple)):
            return [
                Reason(f"The samples of {name} lie ready in memory", 'Leave this off, or try what="device".')
            ]
        if self.what == "device" and (refusal := _why_not_on_device(name, loader)):
            return [refusal]
        try:
            return why_not_kept(name, dataset, all_of_it=self.what == "device")
        except Exception as error:  # whatever the user's own data set raises
            return [unreadable(name, error)]

    def _why_not_memory(
        self, loaders: Sequence[tuple[str, DataLoader[Any]]], device: str, free_bytes: int
    ) -> list[Reason]:
        import torch

        new: list[tuple[str, Any]] = [
            (name, each.dataset) for name, each in loaders if not is_cache(each.dataset)
        ]
        needed, count = (sum(map(measure, (data for _, data in new))) for measure in (size_of_all, len))
        if self.what == "device" and device.startswith("cuda"):
            free_bytes = torch.cuda.mem_get_info(device)[0]
        if needed <= _SHARE_OF_MEMORY * free_bytes:
            return []
        return [
            Reason(
                f"{count:,} samples of {' and '.join(name for name, _ in new)} take about {size(needed)}, and "
                f"{size(free_bytes)} are free, half of which training should have",
                "Make the images smaller before they are kept, or leave this off.",
            )
        ]


def _why_not_on_device(name: str, loader: DataLoader[Any]) -> Reason | None:
    from torch.utils.data import default_collate

    if loader.num_workers:
        return Reason(
            f"{name} has worker processes, which cannot reach what lies on one device",
            'Set num_workers=0, or use what="samples".',
        )
    if loader.collate_fn is not default_collate:
        return Reason(
            f"{name} collates batches in a way of its own", 'Leave collate_fn out, or use what="samples".'
        )
    return None


def _on_device_code(name: str, device: str) -> list[str]:
    return [
        f'if type({name}.dataset).__name__ != "SamplesOnDevice":  # a second run of this cell finds it done',
        f"    _samples = SamplesOnDevice({name}.dataset, {device!r})",
        f"    vars({name}).update(dataset=_samples, collate_fn=as_it_is, pin_memory=False)",
    ]


def _caching_code(name: str, dataset: Any) -> list[str]:
    """The lines that put a CachedSamples into one loader."""
    found = samples_to_keep(dataset)
    first = f'if type({name}.dataset).__name__ != "CachedSamples":  # a second run of this cell finds it done'
    if not found.rest:
        return [first, f'    vars({name})["dataset"] = CachedSamples({name}.dataset)']
    return [
        first,
        f"    _steps = steps_of({name}.dataset)",
        f"    _source = with_transform({name}.dataset, Compose(_steps[:{found.kept}]))",
        f'    vars({name})["dataset"] = CachedSamples(_source, Compose(_steps[{found.kept}:]), position={found.position})',
    ]
