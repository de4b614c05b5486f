"""Read and decode each sample once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.loader_iterators import changed_attributes, keeps_own_workers
from accel.accelerations.model_call import distinct
from accel.accelerations.plain_source import plain_source
from accel.accelerations.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Replica, Workload

_PROBED = 2  # samples that are read to see what can be kept
_SHARE_OF_MEMORY = 0.5  # of what is available; the rest is for training


@dataclass(frozen=True)
class CacheDataset:
    """Read and decode each sample once, and take it from memory in later epochs.

    What it does
        Puts a data set that remembers in the place of each DataLoader's own, from its next epoch on. With
        what="samples", samples are kept as they are before the first random transform, in memory that all worker
        processes share; from there on each transform runs anew, so random augmentation stays random and draws what
        it always drew. With what="device", the whole set is read at the first batch, into one tensor a part on the
        GPU (in main memory where there is none), and a batch is one indexing operation. The losses are equal bit for
        bit.
    When it helps
        Where a profile shows time in reading or decoding (files, JPEG, resizing) and the set fits into memory, from
        the second epoch on. what="device": small sets that Python collates sample by sample.
    When it hurts
        It takes as much memory as all samples that are read: an estimate from a few samples has to fit into half of
        what is free. The first epoch is a little slower. Nothing is gained where the first transform is random
        already. Files that change meanwhile, and attributes of the data set that are set later, are not seen.
        Samples of differing shapes are read each time. what="device" needs transforms without randomness and the
        usual collating, and runs without worker processes. Not measured here yet.
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
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.what == "device":  # other processes cannot read what lies there
            object.__setattr__(self, "conflicts", ("loader_workers",))

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No DataLoader, samples that cannot be kept or are random, or not enough memory."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "loaders"):
            return unseen
        return [
            reason
            for name, loader in distinct(replica.loaders)
            for reason in self._why_not_loader(name, loader, machine.available_bytes)
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Give each loader a data set that remembers; the user's own is left as it is."""
        from accel.machine import read_machine

        with ExitStack() as stack:
            for name, loader in distinct(replica.loaders):
                if not self._why_not_loader(name, loader, read_machine().available_bytes):
                    stack.enter_context(changed_attributes(loader, **self._attributes(loader)))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many samples are kept."""
        kept = total = size_bytes = 0
        remembering: list[Any] = [
            loader.dataset for _, loader in distinct(replica.loaders) if _remembers(loader)
        ]
        for dataset in remembering:
            total += len(dataset)
            if hasattr(dataset, "is_kept"):
                here = int(dataset.is_kept.sum())
                kept, size_bytes = kept + here, size_bytes + here * dataset.rows.shape[1]
            elif dataset.parts:
                kept += len(dataset.parts[0])
                size_bytes += sum(part.nbytes for part in dataset.parts)
        took_effect = kept > 0 and len(remembering) == len(distinct(replica.loaders))
        where = {str(dataset.device) for dataset in remembering if hasattr(dataset, "device")}
        place = " and ".join(sorted(where - {"cpu"})) or "memory"
        return Proof(
            took_effect, f"{kept} of {total} samples are kept in {place} ({size_bytes / 2**20:.1f} MiB)"
        )

    def as_code(self, workload: Workload) -> str:
        """The data set that remembers, as a class, and a line a loader that puts it there."""
        from accel.accelerations import cached_samples, dataset_transforms
        from accel.accelerations.dataset_transforms import steps_of

        loaders = workload.objects().loaders
        if self.what == "device":
            parts = [
                plain_source(
                    cached_samples, leave_out=("CachedSamples", "format_of", "from_array", "as_array")
                )
            ]
            parts += ["", '_device = "cuda" if torch.cuda.is_available() else "cpu"']
        else:
            parts = [plain_source(cached_samples, leave_out=("SamplesOnDevice", "as_it_is"))]
            if any(steps_of(loader.dataset) for loader in loaders.values()):
                parts = [
                    "from torchvision.transforms import Compose",
                    *parts,
                    "",
                    plain_source(dataset_transforms),
                ]
        parts += ["", "# vars(): a DataLoader refuses another data set once it is built."]
        for name in names_of(workload, "loaders"):
            if self.what == "device":
                parts += [
                    f"vars({name}).update(dataset=SamplesOnDevice({name}.dataset, _device), collate_fn=as_it_is)"
                ]
            elif name in loaders:
                parts += _caching_code(name, loaders[name].dataset)
        return "\n".join(parts) + "\n"

    def _attributes(self, loader: DataLoader[Any]) -> dict[str, Any]:
        from accel.accelerations.cached_samples import CachedSamples, SamplesOnDevice, as_it_is

        if self.what == "device":
            return {"dataset": SamplesOnDevice(loader.dataset, _device()), "collate_fn": as_it_is}
        found = _divided(loader.dataset)
        if not found.rest:
            return {"dataset": CachedSamples(loader.dataset)}
        from torchvision.transforms import Compose

        return {"dataset": CachedSamples(found.source, Compose(found.rest), found.position)}

    def _why_not_loader(self, name: str, loader: DataLoader[Any], available_bytes: int) -> list[str]:
        from torch.utils.data import IterableDataset, TensorDataset

        dataset: Any = loader.dataset
        if _remembers(loader):
            return []  # ours, kept: the reasons below were looked at then
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            return [f"The data set of {name} has no samples with an index and a number of them. "
                    "Use a data set with __getitem__ and __len__, or leave this off."]  # fmt: skip
        if not len(dataset):
            return [f"The data set of {name} is empty. Leave this off."]
        if keeps_own_workers(loader):
            return [f"{name} keeps worker processes of its own (persistent_workers=True), which have their data already. "
                    "Build it without, or leave this off."]  # fmt: skip
        if self.what == "samples" and isinstance(dataset, (TensorDataset, list, tuple)):
            return [f'The samples of {name} lie ready in memory. Leave this off, or try what="device".']
        if self.what == "device" and (refusal := _why_not_on_device(name, loader)):
            return [refusal]
        try:
            return self._why_not_kept(name, dataset, available_bytes)
        except Exception as error:  # whatever the user's own data set raises
            return [f"A sample of {name} could not be read ({type(error).__name__}: {error}). "
                    f"Look at what {name}.dataset[0] gives, or leave this off."]  # fmt: skip

    def _why_not_kept(self, name: str, dataset: Any, available_bytes: int) -> list[str]:
        import torch

        from accel.accelerations.sample_probe import (
            is_random,
            name_of_step,
            nothing_drawn,
            position_of_image,
            spread,
        )

        found = _divided(dataset)
        if found.rest and (self.what == "device" or not found.kept):
            step = name_of_step(found.rest[0])
            return [f"{step} comes first among the transforms of {name} and is random: keeping what it gives would freeze it. "
                    "Put decoding and resizing before it, or leave this off." if not found.kept else
                    f"{step} of {name} is random: keeping what it gives would freeze it. "
                    'Use what="samples", which keeps what comes before it.']  # fmt: skip
        with nothing_drawn():
            if found.rest and position_of_image(dataset) is None:
                return [f"The data set of {name} changes images after its transforms, some of which are random. "
                        "Move what it does into the transforms, or leave this off."]  # fmt: skip
            samples = []
            for index in spread(len(dataset), _PROBED):
                if is_random(lambda index=index: found.source[index]):  # type: ignore[misc]
                    return [f"The data set of {name} is random where it reads a sample (in __getitem__). "
                            "Make that a transform, or leave this off."]  # fmt: skip
                samples.append(found.source[index])
        if odd := next((kind for sample in samples for kind in _cannot_be_kept(sample)), ""):
            return [f"The samples of {name} hold {odd}, which cannot be kept in shared memory. "
                    "Leave that out of the sample, or leave this off."]  # fmt: skip
        needed, free = len(dataset) * max(map(_size_bytes, samples)), available_bytes
        if self.what == "device" and _device().type == "cuda":
            free = torch.cuda.mem_get_info()[0]
        if needed > _SHARE_OF_MEMORY * free:
            return [f"{len(dataset):,} samples of {name} take about {needed / 2**30:.1f} GiB, and "
                    f"{free / 2**30:.1f} GiB are free, half of which training should have. "
                    "Make the images smaller before they are kept, or leave this off."]  # fmt: skip
        return []


class _Divided(NamedTuple):
    """A data set as it is before its first random transform, and what has to be done to each sample anew."""

    source: Any
    kept: list[Any] | None
    rest: list[Any]
    position: int


def _divided(dataset: Any) -> _Divided:
    from accel.accelerations.dataset_transforms import steps_of, with_transform
    from accel.accelerations.sample_probe import (
        first_random_step,
        nothing_drawn,
        position_of_image,
        spread,
        untransformed,
    )

    steps = steps_of(dataset)
    if not steps:
        return _Divided(dataset, None, [], 0)
    with nothing_drawn():
        first = first_random_step(
            steps, [untransformed(dataset, index) for index in spread(len(dataset), _PROBED)]
        )
        if first == len(steps):
            return _Divided(dataset, steps, [], 0)
        from torchvision.transforms import Compose

        source = with_transform(dataset, Compose(steps[:first]))
        return _Divided(source, steps[:first], steps[first:], position_of_image(dataset) or 0)


def _remembers(loader: DataLoader[Any]) -> bool:
    from accel.accelerations.cached_samples import CachedSamples, SamplesOnDevice

    return isinstance(loader.dataset, (CachedSamples, SamplesOnDevice))


def _device() -> Any:
    import torch

    on_gpu = torch.cuda.is_available()
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def _why_not_on_device(name: str, loader: DataLoader[Any]) -> str:
    from torch.utils.data import default_collate

    if loader.num_workers:
        return (f"{name} has worker processes, which cannot reach what lies on one device. "
                'Set num_workers=0, or use what="samples".')  # fmt: skip
    if loader.collate_fn is not default_collate:
        return f'{name} collates batches in a way of its own. Leave collate_fn out, or use what="samples".'
    return ""


def _cannot_be_kept(sample: Any) -> list[str]:
    """The kinds of things in a sample that cannot be read back from bytes exactly as they were."""
    import numpy
    import torch
    from torch.utils._pytree import tree_leaves

    def can_be_kept(part: Any) -> bool:
        if isinstance(part, torch.Tensor):
            plain = type(part).__name__ in (
                "Tensor",
                "Image",
                "Mask",
            )  # tv_tensors of boxes have attributes beside
            dense = part.layout is torch.strided and part.device.type == "cpu" and not part.requires_grad
            return plain and dense and part.dtype not in (torch.bfloat16, *_without_numpy(torch))
        if isinstance(part, (numpy.ndarray, numpy.generic)):
            return part.dtype.kind in "biufc"
        if isinstance(part, (bool, int, float)):
            return numpy.asarray(part).dtype.kind in "bif"
        return hasattr(part, "getbands") and part.mode in ("L", "RGB", "RGBA", "I", "F")

    parts = tree_leaves(sample)
    return [
        f"a {type(part).__name__}" for part in parts if not can_be_kept(part)
    ] or ([] if parts else ["nothing"])  # fmt: skip


def _without_numpy(torch: Any) -> list[Any]:
    return [dtype for name in dir(torch) if name.startswith("float8") and (dtype := getattr(torch, name))]


def _size_bytes(sample: Any) -> int:
    from torch.utils._pytree import tree_leaves

    from accel.accelerations.cached_samples import as_array

    return sum(as_array(part).nbytes for part in tree_leaves(sample))


def _caching_code(name: str, dataset: Any) -> list[str]:
    """The lines that put a CachedSamples into one loader."""
    from accel.accelerations.dataset_transforms import steps_of

    found = _divided(dataset)
    if not found.rest:
        return [f'vars({name})["dataset"] = CachedSamples({name}.dataset)']
    kept = len(steps_of(dataset)) - len(found.rest)
    return [
        f"_steps = steps_of({name}.dataset)",
        f"_source = with_transform({name}.dataset, Compose(_steps[:{kept}]))",
        f'vars({name})["dataset"] = CachedSamples(_source, Compose(_steps[{kept}:]), position={found.position})',
    ]
