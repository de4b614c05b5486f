"""The software that training runs on, as it is here: torch's build, its libraries, process groups, driver and C library."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from accel.units import table

NEEDS_TORCH = "known once torch is loaded"


@dataclass(frozen=True)
class TorchBuild:
    """What torch was built for; versions are None for what it was not built with."""

    version: str
    cuda: str | None
    rocm: str | None
    xpu: str | None
    is_debug: bool

    @property
    def target(self) -> str:
        """The accelerator in words.

        >>> accel.machine().software.torch.target
        'CUDA 13.0'
        """
        named = {"CUDA": self.cuda, "ROCm": self.rocm, "XPU": self.xpu}
        return ", ".join(f"{name} {version}" for name, version in named.items() if version) or "the CPU only"

    def __str__(self) -> str:
        return f"{self.version}, built for {self.target}" + (", a debug build" if self.is_debug else "")


@dataclass(frozen=True)
class TorchLibraries:
    """The libraries that the loaded torch calls, with their versions; None: not part of it, or its version is unknown.

    `blas` multiplies matrices on the CPU, `cpu_kernels` are the instruction sets that torch's own kernels use, `cudnn` and `nccl`
    are MIOpen and RCCL in a build for ROCm. `process_groups` are the backends of torch.distributed, `absent_groups` the others.
    """

    blas: str | None
    onednn: str | None
    cpu_kernels: str | None
    cudnn: str | None
    nccl: str | None
    process_groups: tuple[str, ...]
    absent_groups: tuple[str, ...]
    has_cxx11_abi: bool | None


@dataclass(frozen=True)
class Software:
    """What this process trains with.

    >>> print(accel.machine().software)
    >>> accel.machine().software.libraries.onednn
    '3.12.0'

    `libraries` is None where torch is not loaded; `driver` and `driver_cuda` (the newest CUDA that it knows) where no NVIDIA
    driver answers, and `why_no_driver` says why. Reading it loads no torch and starts no CUDA.
    """

    torch: TorchBuild | None
    libraries: TorchLibraries | None
    driver: str | None
    driver_cuda: str | None
    why_no_driver: str | None
    c_library: str | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What keeps torch from a GPU that is there, and what to do."""
        build = self.torch
        if build is None or self.driver is None:
            return ()
        if build.cuda is None:
            return (
                f"torch is built for {build.target} and leaves the NVIDIA GPU alone: install a build for CUDA"
                + (f" {self.driver_cuda} or older" if self.driver_cuda else ""),
            )
        if self.driver_cuda and _major(build.cuda) > _major(self.driver_cuda):
            return (
                f"torch needs CUDA {build.cuda} and driver {self.driver} knows CUDA up to {self.driver_cuda}: "
                f"update the driver, or install a torch for CUDA {_major(self.driver_cuda)}",
            )
        return ()

    @property
    def facts(self) -> list[tuple[str, str]]:
        """(what, value) pairs in reading order."""
        libraries = self.libraries
        rows = [("torch build", self._build())]
        if libraries is None:
            rows.append(("Libraries", NEEDS_TORCH))
        else:
            rows += [
                (
                    "Libraries",
                    _named(BLAS=libraries.blas, oneDNN=libraries.onednn, **self._of_gpus(libraries)),
                ),
                ("CPU kernels", libraries.cpu_kernels or "not reported by torch"),
                ("Process groups", _groups(libraries)),
            ]
        cuda = f", CUDA up to {self.driver_cuda}" if self.driver_cuda else ""
        driver = f"{self.driver}{cuda}" if self.driver else self.why_no_driver or "unknown"
        rows += [("GPU driver", driver), ("C library", self.c_library or "not reported by the system")]
        return rows + [("To do", note) for note in self.notes]

    def _build(self) -> str:
        if self.torch is None:
            return "torch is missing"
        abi = None if self.libraries is None else self.libraries.has_cxx11_abi
        parts = [f"for {self.torch.target}"]
        parts += ["a debug build, slower than others"] if self.torch.is_debug else []
        parts += [] if abi is None else ["C++11 ABI" if abi else "C++ ABI before C++11"]
        return ", ".join(parts)

    def _of_gpus(self, libraries: TorchLibraries) -> dict[str, str | None]:
        is_rocm = self.torch is not None and self.torch.rocm is not None
        names = ("MIOpen", "RCCL") if is_rocm else ("cuDNN", "NCCL")
        return dict(zip(names, (libraries.cudnn, libraries.nccl), strict=True))

    def __str__(self) -> str:
        return "\n".join(table(self.facts))

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain numbers, strings, lists and dictionaries, and the notes."""
        return asdict(self) | {"notes": list(self.notes)}


def _named(**versions: str | None) -> str:
    """ "oneMKL 2024.2" names itself; "3.12.0" needs the library's name before it."""
    return ", ".join(
        f"no {name}" if found is None else found if name == "BLAS" else f"{name} {found}"
        for name, found in versions.items()
    )


def _groups(libraries: TorchLibraries) -> str:
    if not libraries.process_groups:
        return "none: torch is built without torch.distributed"
    absent = f"; not {', '.join(libraries.absent_groups)}" if libraries.absent_groups else ""
    return ", ".join(libraries.process_groups) + absent


def _major(version: str) -> int:
    return int(version.partition(".")[0])
