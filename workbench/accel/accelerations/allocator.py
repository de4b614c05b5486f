"""Another malloc than the system's, loaded before all other libraries."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from accel.accelerations.acceleration import Proof
from accel.accelerations.started import Started, not_on_linux
from accel.accelerations.steady_allocator import allocator_name
from accel.errors import Reason
from accel.machine.reading_software import owner_of
from accel.processes.start import Start, Variables
from accel.techniques.started.preloading import library_file

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

LIBRARIES = {
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"),
    "jemalloc": ("libjemalloc.so.2",),
}
PACKAGES = {"tcmalloc": "libtcmalloc-minimal4", "jemalloc": "libjemalloc2"}
# jemalloc 5.3 purges its arena for large blocks eagerly, which made steps take 1.7 times as long: it is switched off, and freed
# memory is kept.
CONFIGURATION = "oversize_threshold:0,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"


@dataclass(frozen=True)
class Allocator(Started):
    """Let tcmalloc or jemalloc give out memory in place of the system's own malloc.

    What it does
        Starts the process with the library in `LD_PRELOAD`; jemalloc with settings under which it keeps what is freed.
    When it helps
        Training on CPUs whose steps allocate and free large tensors: glibc's malloc gives them back to the system, and each
        step maps them anew. On a two-core EPYC the course CNN took 4,500 page faults a step, and none with either: ×1.1 to
        ×1.35. steady_allocator does the same without another library.
    When it hurts
        Memory that was freed stays with the process. jemalloc 5.3 with its own settings ran at ×0.57.
    In plain PyTorch
        LD_PRELOAD=libtcmalloc_minimal.so.4 python train.py
    References
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#cpu-specific-optimizations
        https://github.com/jemalloc/jemalloc/issues/2395
        https://github.com/google/tcmalloc
    """

    kind: Literal["tcmalloc", "jemalloc"] = "tcmalloc"

    name: ClassVar[str] = "allocator"
    needs_own_process: ClassVar[bool] = True
    containers_install_it: ClassVar[bool] = True
    conflicts: ClassVar[tuple[str, ...]] = ("steady_allocator",)

    def start(self) -> Start:
        """With the library before all others."""
        file = library_file(LIBRARIES[self.kind]) or LIBRARIES[self.kind][0]
        settings: Variables = (("MALLOC_CONF", CONFIGURATION),) if self.kind == "jemalloc" else ()
        return Start(settings, preload=(file,))

    def missing(self) -> list[Reason]:
        """The library."""
        if elsewhere := not_on_linux():
            return elsewhere
        if library_file(LIBRARIES[self.kind]) is not None:
            return []
        how = f"Install it (apt-get install {PACKAGES[self.kind]}), or use steady_allocator."
        return [Reason(f"{self.kind} is not installed here", how)]

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Tensors on a GPU, a library that is not there, or another allocator in the notebook already."""
        reasons = self.missing()
        if workload.objects().device.startswith("cuda"):
            reasons.append(
                Reason("The model's tensors are on a GPU, where malloc has no part", "Leave it off.")
            )
        if (here := allocator_name()) != "glibc":
            reasons.append(
                Reason(f"The notebook allocates with {here}", "Start the kernel without it to compare.")
            )
        return reasons

    def took_effect(self, replica: Replica) -> Proof:
        """The library that really answers, and of jemalloc a setting read back."""
        file = owner_of("malloc") or "no library"
        if self.kind not in os.path.basename(file):
            return Proof(False, f"malloc is of {file}")
        if self.kind == "jemalloc" and (threshold := _jemalloc_says(b"opt.oversize_threshold")) != 0:
            return Proof(
                False,
                f"malloc is of {file}, but its settings are not ours: oversize_threshold is {threshold}",
            )
        return Proof(True, f"malloc is of {file}")


def _jemalloc_says(name: bytes) -> int | None:
    """A number that jemalloc knows by this name."""
    value, size = ctypes.c_size_t(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_size_t))
    failed = ctypes.CDLL(None).mallctl(name, ctypes.byref(value), ctypes.byref(size), None, 0)
    return None if failed else value.value
