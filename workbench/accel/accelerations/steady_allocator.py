"""Keep freed memory in the process instead of handing it back to the system after every tensor."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.machine.mmap_threshold import LARGEST, LEAST, found_mmap_threshold, is_raised

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

# Numbers of <malloc.h>. glibc's own start values are 128 KiB each (LEAST); older versions refuse a threshold above 32 MiB.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_STEADY = ((_MMAP_THRESHOLD, (1 << 30, 1 << 25)), (_TRIM_THRESHOLD, (2**31 - 1,)), (_TOP_PAD, (1 << 28,)))
_PROBE_BYTES = 16 << 20


@dataclass(frozen=True)
class SteadyAllocator:
    """Let glibc keep the memory of freed tensors for the next step.

    What it does
        Raises three thresholds of glibc's malloc, at once and for the whole process. By default each large tensor
        is mapped from the system when it is made and unmapped when it is freed, and each page of it faults anew in
        every step.
    When it helps
        CPU training with tensors of some 100 kB and more. Measured on a two-core EPYC, course CNN, batch 64, over
        relaunches: ×1.21 [1.10, 1.53] on one thread, ×1.26 [1.20, 1.61] on two (smallest and largest of five); with
        autocast, channels_last and fused_optimizer ×2.82 against ×1.66 for those three alone. 100 steps took 120
        thousand page faults instead of 320 to 1,000 thousand, and run times of one program agreed within 1 %
        instead of 10 %.
    When it hurts
        Freed memory stays with the process: its peak is what it holds until it ends. Nothing for training on a GPU.
        Undo sets the thresholds that glibc had found for itself by then, and steps take as many page faults as before; but it
        no longer raises them for larger tensors until the process ends.
    In plain PyTorch
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 1 << 30) or mallopt(-3, 1 << 25)  # an older glibc refuses the first
        mallopt(-1, 2**31 - 1), mallopt(-2, 1 << 28)
    References
        https://man7.org/linux/man-pages/man3/mallopt.3.html
    """

    name: ClassVar[str] = "steady_allocator"
    layer: ClassVar[Layer] = "environment"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = True
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Another allocator than glibc's, thresholds set from outside, or training that does not run on the CPU."""
        allocator = allocator_name()
        if allocator != "glibc":
            return [
                Reason(
                    f"This process allocates with {allocator}, and the thresholds are glibc's",
                    "Leave it off, or start the kernel without the preload to compare.",
                )
            ]
        reasons = []
        if from_outside := set_from_outside():
            reasons.append(
                Reason(
                    f"{from_outside} in the environment sets malloc's thresholds already",
                    "Unset it and restart the kernel to compare.",
                )
            )
        elif not is_steady() and is_raised():
            reasons.append(
                Reason(
                    "Something raised malloc's thresholds in this process already",
                    "Nothing needs to be done.",
                )
            )
        if workload.objects().device_type != "cpu":
            reasons.append(
                Reason("The model's tensors are on a GPU, where malloc has no part", "Leave it off.")
            )
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the thresholds; nothing for a replica that is only a part of the process, or where they are set."""
        if not replica.is_process_wide or is_steady():
            yield
            return
        before = present_threshold()
        use_steady_thresholds()
        try:
            yield
        finally:
            fix_thresholds(before)

    def took_effect(self, replica: Replica) -> Proof:
        """Page faults when a large block is made again right after it was freed."""
        faults = _faults_of_a_second_block()
        if faults is None:
            return Proof(False, f"this process allocates with {allocator_name()}, not glibc")
        kept = (
            "was kept" if faults < 8 else "went back to the system"
        )  # 8: one a huge page, where those are on
        return Proof(
            is_steady() and faults < 8,
            f"a freed block of 16 MiB {kept}: {faults} page faults when it was made again",
        )

    def as_code(self, workload: Workload) -> str:
        """The calls of mallopt, with the same second choice."""
        return (
            "import ctypes\n\n"
            "_mallopt = ctypes.CDLL(None).mallopt\n"
            "_mallopt(-3, 1 << 30) or _mallopt(-3, 1 << 25)  # an older glibc refuses the first\n"
            "_mallopt(-1, 2**31 - 1), _mallopt(-2, 1 << 28)\n"
        )


_SET_BACK = "set back to "
_state: dict[str, bool | int] = {
    "is_steady": False,
    "fixed_at": 0,
}  # glibc has no call that reads the thresholds back


def is_steady() -> bool:
    """Whether `use_steady_thresholds` is in force in this process."""
    return bool(_state["is_steady"])


def notebook_allocator() -> str:
    """What another process must be told to allocate as this one does: "steady", "set back to …" or "as the notebook".

    After an undo the thresholds are fixed, which is not the same as never touched.
    """
    if is_steady():
        return "steady"
    return f"{_SET_BACK}{_state['fixed_at']}" if _state["fixed_at"] else "as the notebook"


def allocate_as(allocator: str) -> None:
    """Let this process allocate as the one that `notebook_allocator` was asked in."""
    if allocator == "steady":
        use_steady_thresholds()
    elif allocator.startswith(_SET_BACK):
        fix_thresholds(int(allocator.removeprefix(_SET_BACK)))


def present_threshold() -> int:
    """The size from which on blocks are mapped, as it is now; where it cannot be found, the largest that glibc would use."""
    if allocator_name() != "glibc":
        return LARGEST
    return int(_state["fixed_at"]) or found_mmap_threshold() or LARGEST


def use_steady_thresholds() -> bool:
    """Keep freed memory in this process from now on; False where the allocator is not glibc's.

    >>> use_steady_thresholds()
    True
    """
    if allocator_name() != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    accepted = all(any(mallopt(option, value) == 1 for value in values) for option, values in _STEADY)
    _state["is_steady"] = accepted
    return accepted


def fix_thresholds(mmap_threshold: int = LEAST) -> bool:
    """Leave the steady thresholds for these, of which glibc keeps the second at twice the first; False without glibc.

    >>> fix_thresholds(6 << 20)
    True
    """
    if allocator_name() != "glibc":
        return False
    libc, trim = ctypes.CDLL(None), LEAST if mmap_threshold <= LEAST else 2 * mmap_threshold
    wanted = ((_MMAP_THRESHOLD, mmap_threshold), (_TRIM_THRESHOLD, trim), (_TOP_PAD, LEAST))
    accepted = [libc.mallopt(option, value) == 1 for option, value in wanted]
    libc.malloc_trim(ctypes.c_size_t(0))
    _state.update(is_steady=False, fixed_at=mmap_threshold)
    return all(accepted)


def allocator_name() -> str:
    """The allocator that malloc reaches in this process: "glibc", "tcmalloc", "jemalloc" …, asked of the linker.

    >>> allocator_name()
    'glibc'
    """
    from accel.machine.reading_software import owner_of

    file = os.path.basename(owner_of("malloc") or "")
    for known in ("tcmalloc", "jemalloc", "mimalloc", "musl"):
        if known in file:
            return known
    if hasattr(ctypes.CDLL(None), "gnu_get_libc_version") and file.startswith("libc"):
        return "glibc"
    return file or "an unknown allocator"


def set_from_outside() -> str:
    """The environment variable that set malloc's thresholds when the process started; empty when none did."""
    for variable in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"):
        if variable in os.environ:
            return variable
    return "GLIBC_TUNABLES" if "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") else ""


def _faults_of_a_second_block() -> int | None:
    """Make, fill and free a block, then count the page faults of doing it again; None without glibc."""
    import resource

    if allocator_name() != "glibc":
        return None
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    faults = 0
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        block = libc.malloc(_PROBE_BYTES)
        ctypes.memset(block, 1, _PROBE_BYTES)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        libc.free(block)
    return faults
