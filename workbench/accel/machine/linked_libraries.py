"""Which file a C function of this process really comes from: asked of the linker, not guessed from what is loaded.

With a preloaded OpenMP runtime both runtimes are mapped, and only one of them is called; the same with allocators.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar


class _DlInfo(ctypes.Structure):
    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p),
    ]  # fmt: skip


def owner_of(symbol: str) -> str | None:
    """The file of the library that a call of `symbol` reaches; None when no loaded library has it.

    >>> owner_of("malloc")
    '/lib/x86_64-linux-gnu/libc.so.6'
    """
    try:
        process = ctypes.CDLL(None)
        address = ctypes.cast(getattr(process, symbol), ctypes.c_void_p)
        info = _DlInfo()
        found = process.dladdr(address, ctypes.byref(info))
    except (AttributeError, OSError, TypeError):  # no such symbol; Windows has neither CDLL(None) nor dladdr
        return None
    return info.file.decode() if found and info.file else None


def openmp_runtime() -> str | None:
    """The OpenMP library that torch's parallel loops run on; meaningful once torch is loaded."""
    return owner_of("GOMP_parallel") or owner_of("__kmpc_fork_call") or owner_of("omp_get_max_threads")
