"""Which device and stream each kineto event ran on, the bytes it copied, and the call that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints

BYTES = re.compile(r'"bytes":\s*"?(\d+)')


class DeviceColumns(NamedTuple):
    """One entry per event; see `KinetoColumns` for what each means on the CPU."""

    device: Ints
    stream: Ints
    bytes: Ints
    correlation: Ints


def cpu_only(count: int) -> DeviceColumns:
    """The columns of a trace in which nothing ran on a device: not one question asked per event."""
    import numpy as np

    return DeviceColumns(np.full(count, -1), np.full(count, -1), np.zeros(count, int), np.zeros(count, int))


def read_device_columns(events: Sequence[Any], is_device: Flags, is_runtime: Flags) -> DeviceColumns:
    """Ask only the events that ran on a device, and the calls into its runtime, for what an operation has not."""
    import numpy as np

    columns = cpu_only(len(events))
    for i in np.flatnonzero(is_device).tolist():
        event = events[i]
        columns.device[i], columns.stream[i] = event.device_index(), event.device_resource_id()
        columns.bytes[i] = _bytes(event)
    for i in np.flatnonzero(is_device | is_runtime).tolist():
        columns.correlation[i] = events[i].correlation_id()
    return columns


def with_metadata() -> Any | None:
    """What the profiler must be told for copies to tell their bytes; None where torch is too old (before 2.10)."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(expose_kineto_event_metadata=True)
    except TypeError:
        return None


def _bytes(event: Any) -> int:
    """Only copies and fills know their bytes, in the metadata, which older versions of torch do not hand out."""
    if not event.name().startswith("Mem") or not hasattr(event, "metadata_json"):
        return 0
    found = BYTES.search(event.metadata_json())
    return int(found[1]) if found else 0
