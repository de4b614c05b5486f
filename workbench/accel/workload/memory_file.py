"""One anonymous memory file that holds a workload's tensors; workers map it copy-on-write.

`memfd_create` gives a file without a name: nothing is left in /dev/shm whatever happens, and only a process that is handed
the descriptor can read it. Elsewhere an unlinked temporary file serves.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

from accel.errors import NotShippable
from accel.units import size

_ALIGNMENT = 64  # bytes; what torch's own allocator gives


class MemoryFile:
    """Written once by the kernel, mapped by each worker.

    >>> memory = MemoryFile()
    >>> offset = memory.add_bytes(b"abc"); memory.seal()
    >>> bytes(memory.view(offset, 3))
    b'abc'
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _anonymous_file() if descriptor is None else descriptor
        self.size_bytes = 0 if descriptor is None else os.fstat(descriptor).st_size
        self._storages: dict[int, tuple[int, Any]] = {}
        self._in_place: set[int] = set()
        self._map: mmap.mmap | None = None

    def add_bytes(self, data: Any) -> int:
        """Append a bytes-like object; returns its offset."""
        offset = -(-self.size_bytes // _ALIGNMENT) * _ALIGNMENT
        view = memoryview(data).cast("B")
        self._check_room(view.nbytes)
        written = 0
        while written < view.nbytes:
            written += os.pwrite(self.descriptor, view[written : written + (1 << 30)], offset + written)
        self.size_bytes = offset + max(view.nbytes, 1)
        return offset

    def _check_room(self, size_bytes: int) -> None:
        """The file lies in memory: running out of it here would cost the notebook, not a worker."""
        import psutil

        if size_bytes > 64 << 20 and size_bytes > 0.8 * (free_bytes := psutil.virtual_memory().available):
            raise NotShippable(
                f"Workers need {size(size_bytes)} of memory for a copy of what the cell reads",
                because=f"only {size(free_bytes)} are free",
                do="Try with a part of the data set: a trial needs some hundred samples only.",
            )

    def add_storage(self, storage: Any) -> int:
        """Append a torch storage once, however many tensors share it; returns its offset."""
        known = self._storages.get(storage._cdata)
        if known is None:
            import torch

            flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            offset = self.add_bytes(flat.cpu().numpy() if flat.numel() else b"")
            self._storages[storage._cdata] = known = (
                offset,
                storage,
            )  # keeps the storage, so that its key stays its own
        return known[0]

    def leave_in_place(self, tensor: Any) -> None:
        """Let workers use this tensor's memory where it is mapped, however small it is.

        A gradient is freed as the first step begins. In memory of malloc that would raise glibc's thresholds before anything was
        computed, and leave the heap in another state for good than that of a process which trains from the start: one CNN then
        took no page faults a step in place of 3,100.
        """
        import torch

        if (
            type(tensor) is torch.Tensor and tensor.layout == torch.strided
        ):  # others have no storage of their own
            self._in_place.add(tensor.untyped_storage()._cdata)

    def is_left_in_place(self, storage: Any) -> bool:
        """Whether workers use this storage where it is mapped."""
        return storage._cdata in self._in_place

    def seal(self) -> None:
        """No more is added: round the size up to what was promised, and let go of the storages."""
        os.ftruncate(self.descriptor, max(self.size_bytes, 1))
        self._storages.clear()

    def view(self, offset: int, size_bytes: int) -> memoryview:
        """Writable view of a span; writes stay private to this process."""
        if self._map is None:
            self._map = mmap.mmap(
                self.descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
            )
        return memoryview(self._map)[offset : offset + size_bytes]

    def storage(self, offset: int, size_bytes: int, *, copy: bool) -> Any:
        """An untyped torch storage over a span, or over a private copy of it in ordinary memory."""
        import torch

        if size_bytes == 0:
            return torch.UntypedStorage(0)  # type: ignore[no-untyped-call]
        mapped = torch.frombuffer(self.view(offset, size_bytes), dtype=torch.uint8)
        return (mapped.clone() if copy else mapped).untyped_storage()

    def close(self) -> None:
        """Let go of the file; mappings that exist stay valid."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("accel-workload", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
