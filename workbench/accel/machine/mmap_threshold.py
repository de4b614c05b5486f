"""From which size on glibc maps a block from the system by itself: a number that it raises as it runs, and has no call to read.

It starts at 128 KiB; each freed block that was mapped raises it to that block's size, up to 32 MiB. So it is found as glibc
uses it: blocks of growing sizes are made, and the first that is mapped tells.
"""

from __future__ import annotations

import ctypes
from typing import Any

LEAST, LARGEST = 128 << 10, 32 << 20
_FINENESS = 1.02  # finding it raises it to the size that showed it, by 2 % at most
_OVERHEAD = 64  # a mapped block is rounded up to whole pages, with its header in front
_IS_MAPPED = 2  # the bit of glibc's header, the word before the block
_MOST_BLOCKS = 20_000
_FIELDS = [
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
]


def found_mmap_threshold() -> int | None:
    """The threshold of this process in bytes; None where it cannot be found. Only asked where malloc is glibc's.

    >>> found_mmap_threshold()
    6422528
    """
    heap, size = _Heap(), float(LEAST)
    held: list[int] = []
    try:
        if heap.is_mapped(LEAST - _OVERHEAD, held):  # whatever lies free is used up first, and held
            return LEAST
        while size < LARGEST:
            size = min(size * _FINENESS, LARGEST)
            blocks: list[int] = []
            try:
                is_mapped = heap.is_mapped(int(size) - _OVERHEAD, blocks)
            finally:
                heap.release(blocks)
            if is_mapped is not False:
                return int(size) if is_mapped else None
        return LARGEST
    finally:
        heap.release(held)


def is_raised() -> bool:
    """Whether someone set the threshold higher than glibc itself goes: blocks above its largest come from the heap."""
    heap = _Heap()
    held: list[int] = []
    try:
        return heap.is_mapped(2 * LARGEST, held) is False
    finally:
        heap.release(held)


class _Heap:
    """malloc and free, and how much the heap holds."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        is_new = hasattr(
            libc, "mallinfo2"
        )  # glibc 2.33; the one before counts in ints, which are only compared here
        word = ctypes.c_size_t if is_new else ctypes.c_int
        result = type("Mallinfo", (ctypes.Structure,), {"_fields_": [(field, word) for field in _FIELDS]})
        self._info: Any = libc.mallinfo2 if is_new else libc.mallinfo
        self._info.restype = result
        self._malloc, self._free = libc.malloc, libc.free
        self._malloc.restype, self._malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        self._free.argtypes = [ctypes.c_void_p]

    def is_mapped(self, size: int, held: list[int]) -> bool | None:
        """Whether a block of that size that does not fit into what lies free is mapped; None: not found out.

        The blocks made for it are added to `held`: the caller releases them.
        """
        before = self._info().arena
        while len(held) < _MOST_BLOCKS and (block := self._malloc(size)):
            held.append(block)
            word = ctypes.sizeof(ctypes.c_size_t)
            if ctypes.c_size_t.from_address(block - word).value & _IS_MAPPED:
                return True
            if self._info().arena != before:
                return False
        return None

    def release(self, blocks: list[int]) -> None:
        """Free the blocks, the last one first: the heap ends as it began."""
        while blocks:
            self._free(blocks.pop())
