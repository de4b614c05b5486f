"""What kind of activity a kineto event is; torch tells since 2.12, before that its other answers do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

RUNTIME_CALL = re.compile(r"(?P<runtime>cuda|hip)[A-Z]|cu[A-Z]")
PYTHON_FRAME = re.compile(r".+\(\d+\): |<built-in |nn\.Module: ")
STREAM_WAITS = frozenset({"Context Sync", "Event Sync", "Stream Sync", "Stream Wait Event"})
# What CUPTI calls its own costs; kineto hands them on as they are.
OVERHEADS = frozenset({
    "Driver Compiler", "Buffer Flush", "Instrumentation", "Resource", "Runtime Triggered Module Loading",
    "Lazy Function Loading", "Command Buffer Full", "Activity Buffer Request", "UVM Activity Init",
})  # fmt: skip
INSTANTS = frozenset({"[memory]", "[OutOfMemory]"})


def kind_reader(events: Sequence[Any]) -> Callable[[Any], str]:
    """The function that tells the kind of each of these events: torch's own where there is one.

    >>> kind_of = kind_reader(events)
    >>> kind_of(events[0])
    'cpu_op'
    """
    activity_type: Callable[[Any], str] | None = (
        getattr(type(events[0]), "activity_type", None) if events else None
    )
    return activity_type or kind_by_other_answers


def kind_by_other_answers(event: Any) -> str:
    """The kind as torch before 2.12 lets one conclude it, from device, name and whether it is an annotation."""
    name: str = event.name()
    if int(event.device_type()) != 0:
        return _kind_on_device(event, name)
    if event.is_user_annotation():
        return "user_annotation"
    if call := RUNTIME_CALL.match(name):
        return "cuda_runtime" if call["runtime"] else "cuda_driver"
    if name in OVERHEADS:
        return "overhead"
    if name in INSTANTS:
        return "cpu_instant_event"
    return "python_function" if PYTHON_FRAME.match(name) else "cpu_op"


def _kind_on_device(event: Any, name: str) -> str:
    if event.is_user_annotation():
        return "gpu_user_annotation"
    if name.startswith(("Memcpy", "Memset")):
        return "gpu_" + name[:6].lower()
    return "cuda_sync" if name in STREAM_WAITS else "kernel"
