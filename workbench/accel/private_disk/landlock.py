"""Landlock: Linux refuses this process and its children every write outside of some folders.

Reading stays free. It needs no privileges and works in most containers; what it does not know of are changes of modes, owners
and times. It holds from now on, in this thread and in all that it starts.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on all architectures
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGES = _WRITE_FILE | sum(
    1 << bit for bit in range(4, 13)
)  # removing and making files and folders of all kinds
_OF_FILES = _WRITE_FILE | _TRUNCATE


class NoLandlock(Exception):
    """The system has none; the reason is its text."""


def version() -> int:
    """Of the interface that this kernel has; raises NoLandlock."""
    if sys.platform != "linux":
        raise NoLandlock("only Linux has Landlock")
    try:
        return _system_call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    except OSError as error:
        raise NoLandlock(f"Linux has no Landlock here: {error.strerror}") from error


def refuse_writes_outside(places: Iterable[str]) -> None:
    """Raises NoLandlock."""
    known = version()
    changes = _CHANGES | (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    try:
        rules = _system_call(_CREATE, struct.pack("Q", changes), ctypes.c_size_t(8), ctypes.c_uint(0))
        try:
            for place in places:
                _allow(rules, place, changes)
            if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")
            _system_call(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint(0))
        finally:
            os.close(rules)
    except OSError as error:
        raise NoLandlock(f"Landlock was refused: {error.strerror}") from error


def _allow(rules: int, place: str, changes: int) -> None:
    try:
        descriptor = os.open(place, os.O_PATH)
    except FileNotFoundError:
        return
    try:
        allowed = changes if os.path.isdir(place) else changes & _OF_FILES
        rule = struct.pack("=Qi", allowed, descriptor)
        _system_call(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint(0))
    finally:
        os.close(descriptor)


def _system_call(number: int, *arguments: object) -> int:
    result = int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
