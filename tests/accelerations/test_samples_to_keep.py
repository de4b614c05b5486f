"""What a cache keeps, what it takes, and how long it lives."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from PIL import Image
from small_training import training, workload_of
from torch.utils.data import DataLoader, TensorDataset
from torchvision import transforms
from training_on_pictures import Pictures, training_on, usual_transforms

from accel.accelerations.cache_dataset import CacheDataset
from accel.accelerations.pin_memory import PinMemory
from accel.accelerations.prefetch_to_device import PrefetchToDevice
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.techniques.data.cached_samples import CachedSamples, SamplesOnDevice
from accel.workload import Replica

TO_TENSOR = [transforms.Resize(8), transforms.ToTensor()]


class Decoded(Pictures):
    """Counts what it decodes, in a list: the attribute stays the same object."""

    def __init__(self, steps, sizes=(12,)):
        super().__init__(transforms.Compose(steps), symmetric=False)
        self.sizes, self.decoded = sizes, []

    def __getitem__(self, index):
        self.decoded.append(index)
        size = self.sizes[index % len(self.sizes)]
        return self.transform(Image.fromarray(self.pixels[index]).resize((size, 12))), index % 5


def reasons(machine=None, what="samples", **datasets):
    loaders = {name: DataLoader(dataset, batch_size=4) for name, dataset in datasets.items()}
    workload = workload_of(Replica(loaders=loaders), loaders)
    return CacheDataset(what=what).why_not(workload, machine or read_machine())


def test_with_a_random_transform_first_what_is_decoded_is_kept():
    steps = [transforms.RandomHorizontalFlip(), *TO_TENSOR]
    usual = training_on(Decoded(steps)).epochs(3)
    pictures = Decoded(steps)
    made = training_on(pictures)
    with CacheDataset().apply(made.replica()):
        pictures.decoded.clear()
        assert made.epochs(3) == usual
        assert len(pictures.decoded) == 12
    assert reasons(loader=pictures) == []


def test_samples_of_different_shapes_are_refused_with_the_transform_that_would_change_them():
    before_crop = Decoded([transforms.RandomCrop(8), transforms.ToTensor()], sizes=(12, 13, 14))
    (reason,) = reasons(loader=before_crop)
    assert "before RandomCrop, the first random transform: 2 kinds among 8" in str(reason)
    assert "differ in shape or kind" in str(
        reasons(loader=Decoded([transforms.ToTensor()], sizes=(12, 13)))[0]
    )


def test_a_cache_that_keeps_hardly_anything_did_not_take_effect():
    """Probed at eight places, the samples looked alike."""

    class Unlike(Pictures):
        def __getitem__(self, index):
            looked_at = index in {round(part * 99 / 7) for part in range(8)}
            return torch.zeros(3, 8, 8 if looked_at else 9 + index), 0

    loader = DataLoader(Unlike(count=100), batch_size=1)
    replica = Replica(loaders={"loader": loader})
    assert reasons(loader=loader.dataset) == []
    with CacheDataset().apply(replica):
        assert len(list(loader)) == 100
        proof = CacheDataset().took_effect(replica)
    assert not proof.took_effect
    assert proof.evidence.startswith("8 of 100 samples are kept")
    assert "92 that were read differ from the first" in proof.evidence


def test_loaders_are_reckoned_together():
    """Each of them alone would fit into half of what is free."""
    import dataclasses

    one = Pictures(transforms.Compose(TO_TENSOR))
    size_bytes = 12 * (3 * 8 * 8 * 4 + 8)
    machine = dataclasses.replace(read_machine(), available_bytes=3 * size_bytes)
    assert reasons(machine, train_loader=one) == []
    (reason,) = reasons(machine, train_loader=one, val_loader=Pictures(transforms.Compose(TO_TENSOR)))
    assert "24 samples of train_loader and val_loader take about" in str(reason)


def test_a_set_is_read_piece_by_piece_to_its_place():
    images, labels = torch.arange(1100.0)[:, None].repeat(1, 3), torch.arange(1100)
    held = SamplesOnDevice(TensorDataset(images, labels), "cpu")
    batch, of_batch = held.__getitems__([0, 511, 512, 1099])
    assert batch[:, 2].tolist() == [0, 511, 512, 1099] == of_batch.tolist()
    assert [part.shape for part in held.parts] == [(1100, 3), (1100,)]
    odd = SamplesOnDevice([torch.zeros(3)] * 512 + [torch.zeros(1)], "cpu")
    with pytest.raises(ValueError, match="another shape"):
        odd.__getitems__([0])


def test_whole_batches_on_the_device_are_not_pinned_and_exclude_what_brings_them_there():
    """Pinning a tensor that lies on the GPU ends the training at its first batch."""
    loader = DataLoader(Pictures(transforms.Compose(TO_TENSOR)), batch_size=4, pin_memory=True)
    entry = CacheDataset(what="device")
    workload = workload_of(Replica(loaders={"loader": loader}), {"loader": loader})
    code = entry.as_code(workload)
    with entry.apply(Replica(loaders={"loader": loader})):
        assert loader.pin_memory is False
    assert loader.pin_memory is True
    exec(code, {"loader": loader})
    assert loader.pin_memory is False
    for other in (PinMemory(), PrefetchToDevice()):
        with pytest.raises(AccelError, match="exclude each other"):
            Plan((entry, other))


@pytest.mark.parametrize("what", ["samples", "device"])
def test_a_trial_does_not_empty_a_cache_that_is_kept_and_undo_does(what):
    made = training_on(Pictures(transforms.Compose(TO_TENSOR)))
    own = made.loader.dataset
    live = LivePlan(made.workload())
    live.keep(Plan((CacheDataset(what=what),)))
    made.epochs()
    cache = weakref.ref(made.loader.dataset)
    with live.suspended():
        assert made.loader.dataset is own
        gc.collect()
    assert made.loader.dataset is cache()
    assert CacheDataset(what=what).took_effect(made.replica()).evidence.startswith("12 of 12")
    live.undo()
    made.epochs()
    gc.collect()
    assert cache() is None


def test_samples_are_probed_once_while_the_data_set_stays_as_it_is():
    pictures = Decoded([transforms.Resize(8), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    assert reasons(loader=pictures) == []
    probed = len(pictures.decoded)
    loader = DataLoader(pictures, batch_size=4)
    assert reasons(loader=pictures) == []
    CacheDataset().as_code(workload_of(Replica(loaders={"loader": loader}), {"loader": loader}))
    assert len(pictures.decoded) == probed
    pictures.transform = transforms.Compose([*TO_TENSOR])
    assert reasons(loader=pictures) == []
    assert len(pictures.decoded) > probed


def test_what_is_remembered_of_a_data_set_keeps_nothing_alive():
    class Bound(Pictures):
        """Its transform is a method of its own: what holds the transform holds the data set."""

        def __init__(self):
            super().__init__(count=4)
            self.transform = self.as_tensor

        def as_tensor(self, image):
            return transforms.functional.to_tensor(image)

    pictures = Bound()
    assert reasons(loader=pictures) == []
    gone = weakref.ref(pictures)
    del pictures
    gc.collect()
    assert gone() is None


def test_code_that_runs_twice_freezes_nothing():
    made = training_on(Pictures(usual_transforms(), symmetric=False))
    code = CacheDataset().as_code(made.workload())
    usual = training_on(Pictures(usual_transforms(), symmetric=False)).epochs(3)
    for _ in range(2):
        exec(code, made.namespace)
    assert made.epochs(3) == usual
    assert not isinstance(made.loader.dataset.source, CachedSamples)


def test_a_model_on_the_cpu_gets_its_batches_there_on_a_machine_with_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    made = training_on(Pictures(transforms.Compose(TO_TENSOR)))
    entry = CacheDataset(what="device")
    assert "cuda" not in entry.as_code(made.workload())
    with entry.apply(made.replica()):
        assert str(made.loader.dataset.device) == "cpu"
        assert next(iter(made.loader))[0].device.type == "cpu"


def test_the_model_says_where_a_loader_alone_puts_its_batches():
    made = training()
    made.model.to("meta")  # a GPU that every machine has
    workload = made.workload()
    live = LivePlan(workload)
    live.keep(Plan((CacheDataset(),)))
    (of_loader,) = (part for part in live.presented() if part.loaders)
    live.undo()
    assert (of_loader.models, of_loader.device) == ({}, "meta")
    from accel.plans.chosen import only, only_roles

    assert only(made.replica(), ("loader",)).device == "meta"
    assert only_roles(workload, ("loader",)).objects().device == "meta"
    gone = workload_of(Replica(loaders={"loader": made.loader}), {"loader": made.loader})
    assert gone.objects().device == "cpu"


def test_a_worker_is_told_where_the_models_are():
    """It may find a loader that the cell builds before it sees a model."""
    from dataclasses import replace

    from accel.workbench.trial_start import load_for
    from accel.workers.worker_main import _prepare
    from accel.workload.shipping import pack

    workload = replace(training().workload(), roles=(), trains_on="cuda:1")
    parcel = pack(workload)
    try:
        found = Replica(loaders={"loader": DataLoader([1, 2])}, is_process_wide=False)
        _prepare(load_for(parcel, workload), found)
    finally:
        parcel.close()
    assert found.device == "cuda:1"


def test_the_device_is_known_of_a_model_that_is_gone():
    from dataclasses import replace

    from accel.workload.call_inputs import CallInputs

    made = training()
    workload = workload_of(made.replica(), {}, inputs=CallInputs.of_call(torch.empty(2, device="meta")))
    roles = tuple(replace(role, reference=lambda: None) for role in workload.roles)
    assert replace(workload, roles=roles).objects().device == "meta"


def test_arrays_of_another_type_are_another_kind():
    class Mixed(Pictures):
        def __getitem__(self, index):
            return np.zeros(3, dtype=np.float32 if index % 2 else np.float64), 0

    assert "2 kinds" in str(reasons(loader=Mixed())[0])
