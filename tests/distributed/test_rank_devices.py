"""Backend and GPUs of ranks: nccl with a GPU each where that can be, else gloo, and why."""

from __future__ import annotations

import pytest

from accel.distributed.ranks.rank_devices import CudaHere, rank_devices
from accel.errors import AccelError, UnknownName


def machine_with(gpus: int, *, nccl: bool = True, visible: str | None = None) -> CudaHere:
    """A machine on which the last GPUs are joined best."""
    return CudaHere(gpus, nccl, visible, lambda count: tuple(range(gpus - count, gpus)))


def seen(devices) -> list[str]:
    return [each.get("CUDA_VISIBLE_DEVICES", "all") for each in devices.environments]


def test_each_rank_sees_one_of_the_gpus_that_are_joined_best() -> None:
    devices = rank_devices(2, cuda=machine_with(4))
    assert devices.backend == "nccl"
    assert seen(devices) == ["2", "3"]
    assert {each["CUDA_DEVICE_ORDER"] for each in devices.environments} == {"PCI_BUS_ID"}
    assert devices.reason == "Ranks 0 to 1 on GPU 2, 3."


def test_gpus_are_taken_as_they_are_named() -> None:
    assert seen(rank_devices(2, gpus="3,0", cuda=machine_with(4))) == ["3", "0"]
    assert seen(rank_devices(2, gpus="3,0", backend="gloo", cuda=machine_with(4))) == ["3", "0"]


def test_cuda_visible_devices_is_heeded() -> None:
    here = machine_with(2, visible="5,7")
    assert seen(rank_devices(2, cuda=here)) == ["5", "7"]
    assert seen(rank_devices(1, gpus="7", cuda=here)) == ["7"]
    with pytest.raises(AccelError, match=r"no GPU 0 that this process may use.*There are 5, 7"):
        rank_devices(1, gpus="0", cuda=here)


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (machine_with(1), "a GPU for each of the 2 ranks, and there is one"),
        (machine_with(2, nccl=False), "without NCCL"),
    ],
)
def test_gloo_stands_in_and_says_why(here: CudaHere, why: str) -> None:
    devices = rank_devices(2, cuda=here)
    assert (devices.backend, seen(devices)) == ("gloo", ["all", "all"])
    assert why in devices.reason
    with pytest.raises(AccelError, match="--backend nccl on 2 ranks"):
        rank_devices(2, backend="nccl", cuda=here)


def test_without_a_gpu_there_is_nothing_to_explain() -> None:
    devices = rank_devices(3, cuda=machine_with(0))
    assert (devices.backend, devices.reason, len(devices.environments)) == ("gloo", "", 3)


@pytest.mark.parametrize(
    ("ranks", "gpus", "words"),
    [
        (2, "0", "names 1 GPUs for 2 ranks"),
        (2, "1,1", "named twice"),
        (2, "0,9", "There are 0, 1, 2, 3"),
    ],
)
def test_gpus_that_cannot_be_are_refused(ranks: int, gpus: str, words: str) -> None:
    with pytest.raises(AccelError, match=words):
        rank_devices(ranks, gpus=gpus, cuda=machine_with(4))


def test_a_backend_that_is_unknown_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'gloo'"):
        rank_devices(1, backend="glo", cuda=machine_with(0))  # type: ignore[arg-type]
