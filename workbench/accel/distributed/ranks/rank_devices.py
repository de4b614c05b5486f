"""Which backend a run's ranks talk by, and which GPU each of them sees; why not, in words."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from accel.errors import AccelError, UnknownName

Backend = Literal["auto", "gloo", "nccl", "ccl"]


@dataclass(frozen=True)
class CudaHere:
    """What of CUDA this process could use: how many GPUs, whether NCCL is there, and who is best joined with whom."""

    gpus: int
    has_nccl: bool
    visible: str | None  # CUDA_VISIBLE_DEVICES
    best: Callable[[int], tuple[int, ...]]  # numbers as nvidia-smi has them

    @classmethod
    def now(cls) -> CudaHere:
        """Of this machine; starts nothing on a GPU."""
        import torch
        import torch.distributed as dist

        from accel.machine.topology import topology

        gpus = torch.cuda.device_count()
        has_nccl = dist.is_available() and dist.is_nccl_available()
        return cls(
            gpus, has_nccl, os.environ.get("CUDA_VISIBLE_DEVICES"),
            lambda count: topology().best_gpus(count).indices,
        )  # fmt: skip


@dataclass(frozen=True)
class RankDevices:
    """The backend, what each rank's environment says of GPUs, and why it is so."""

    backend: str
    environments: tuple[dict[str, str], ...]
    reason: str = ""


def rank_devices(
    ranks: int, *, backend: Backend = "auto", gpus: str = "auto", cuda: CudaHere | None = None
) -> RankDevices:
    """One GPU a rank where there are enough and NCCL can join them, else the CPU with gloo; oneCCL only by name.

    >>> rank_devices(2, gpus="0,3").environments[1]
    {'CUDA_DEVICE_ORDER': 'PCI_BUS_ID', 'CUDA_VISIBLE_DEVICES': '3'}

    `gpus` are numbers as nvidia-smi has them; "auto": those that are joined best. Raises AccelError where what is asked for by
    name cannot be.
    """
    if backend not in get_args(Backend):
        raise UnknownName("backend", backend, get_args(Backend))
    here = cuda or CudaHere.now()
    nothing: tuple[dict[str, str], ...] = tuple({} for _ in range(ranks))
    if backend == "gloo":
        if gpus != "auto":
            return RankDevices("gloo", _environments(_named(ranks, gpus, here)))
        return RankDevices("gloo", nothing)
    if backend == "ccl":
        _check_oneccl(gpus)
        return RankDevices("ccl", nothing)
    if why_not := _why_no_nccl(ranks, here):
        if backend == "nccl" or gpus != "auto":
            asked = "--backend nccl" if backend == "nccl" else f"--gpus {gpus}"
            raise AccelError(
                f"{asked} on {ranks} ranks", because=why_not,
                do="Leave it out, and the ranks use gloo" + (f", or use -n {here.gpus}." if here.gpus else " on the CPU."),
            )  # fmt: skip
        reason = (
            f"The ranks talk by gloo, because {why_not}." if here.gpus else ""
        )  # without any GPU there is nothing to explain
        return RankDevices("gloo", nothing, reason)
    chosen = _named(ranks, gpus, here) if gpus != "auto" else best_gpus(ranks, here)
    return RankDevices("nccl", _environments(chosen), f"Ranks 0 to {ranks - 1} on GPU {', '.join(chosen)}.")


def _check_oneccl(gpus: str) -> None:
    from accel.distributed.oneccl.state import oneccl_here

    if gpus != "auto":
        raise AccelError(
            f"--backend ccl --gpus {gpus}",
            because="oneCCL is for ranks on CPUs here",
            do="Leave out one of them.",
        )
    state = oneccl_here()
    if not state.is_usable:
        raise AccelError(
            "--backend ccl", because=state.why_not, do=f"{state.do} --backend gloo needs nothing."
        )


def _why_no_nccl(ranks: int, here: CudaHere) -> str:
    if not here.gpus:
        return "torch sees no CUDA GPU here"
    if not here.has_nccl:
        return "this torch was built without NCCL"
    if ranks > here.gpus:
        return f"NCCL needs a GPU for each of the {ranks} ranks, and there {_are(here.gpus)}"
    return ""


def _are(gpus: int) -> str:
    return "is one" if gpus == 1 else f"are {gpus}"


def best_gpus(ranks: int, here: CudaHere) -> list[str]:
    """The best joined of all, or the first that CUDA_VISIBLE_DEVICES leaves; so many must be there.

    >>> best_gpus(2, CudaHere.now())
    ['0', '3']
    """
    if here.visible is not None:
        return _listed(here.visible)[:ranks]
    return [str(index) for index in here.best(ranks)]


def _named(ranks: int, gpus: str, here: CudaHere) -> list[str]:
    asked, given = f"--gpus {gpus}", _listed(gpus)
    allowed = (
        _listed(here.visible) if here.visible is not None else [str(index) for index in range(here.gpus)]
    )
    if not here.gpus:
        raise AccelError(asked, because="torch sees no CUDA GPU here", do="Leave it out.")
    if len(given) != ranks:
        raise AccelError(
            asked, because=f"that names {len(given)} GPUs for {ranks} ranks", do=f"Name one a rank, or use -n {len(given)}."
        )  # fmt: skip
    if len(set(given)) != len(given):
        raise AccelError(asked, because="a GPU is named twice", do="Name each GPU once.")
    if strange := [name for name in given if name not in allowed]:
        raise AccelError(
            asked, because=f"there is no GPU {strange[0]} that this process may use", do=f"There are {', '.join(allowed)}."
        )  # fmt: skip
    return given


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _environments(chosen: list[str]) -> tuple[dict[str, str], ...]:
    return tuple({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": each} for each in chosen)
