"""One event of a Chrome trace as torch.profiler writes it: the few fields that a report needs, decoded by msgspec."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError
from msgspec.json import Decoder

# In the order of likelihood; "external id" is how torch before 1.11 spelled it.
ARGUMENTS = {
    "external": ("External id", "external id"), "correlation": ("correlation",), "stream": ("stream",),
    "device": ("device",), "bytes": ("bytes", "Bytes"), "sequence": ("Sequence number",), "forward": ("Fwd thread id",),
}  # fmt: skip
SPELLED = {field: spellings[0] for field, spellings in ARGUMENTS.items()}


class EventArgs(Struct, gc=False, frozen=True, rename=SPELLED):
    """What torch says of an event beyond its name and time."""

    external: int = 0
    correlation: int = 0
    stream: int = -1
    device: int = -1
    bytes: int = 0
    sequence: int = -1
    forward: int = 0


NO_ARGS = EventArgs()
NO_DURATION = -math.inf  # JSON has no such number


class TraceEvent(Struct, gc=False):
    """An event; times in µs. `dur` is NO_DURATION where there is none."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = math.nan
    dur: float = NO_DURATION
    args: EventArgs = NO_ARGS


_as_written_now = Decoder(list[TraceEvent]).decode
_with_numbers_as_text = Decoder(list[TraceEvent], strict=False).decode  # torch 1.8 wrote "External id": "12"


def decode_events(objects: bytes, more: bytes | memoryview = b"") -> list[TraceEvent]:
    """Decode the objects of a list, given without its brackets, in one part or two.

    msgspec.DecodeError when that is no JSON, its subclass ValidationError when a field is of a type that torch never wrote.
    """
    listed = b"".join((b"[", objects.lstrip(b" \t\r\n,"), more, b"]"))
    try:
        return _as_written_now(listed)
    except ValidationError:
        return _with_numbers_as_text(listed)


def lenient_event(decoded: Mapping[str, Any]) -> TraceEvent:
    """An event from a decoded object of any types: strings become numbers, what makes no sense its default.

    >>> lenient_event({"ph": "X", "name": "aten::mm", "ts": "12.5", "dur": "3", "args": {"correlation": "7"}})
    TraceEvent(ph='X', name='aten::mm', cat='', pid=0, tid=0, ts=12.5, dur=3.0, args=EventArgs(external=0, correlation=7, ...))
    """
    decoded_args = decoded.get("args")
    args = decoded_args if isinstance(decoded_args, Mapping) else {}
    return TraceEvent(
        ph=_text(decoded.get("ph")), name=_text(decoded.get("name")), cat=_text(decoded.get("cat")),
        pid=_id(decoded.get("pid", 0)), tid=_id(decoded.get("tid", 0)),
        ts=_number(decoded.get("ts")), dur=_number(decoded["dur"]) if decoded.get("dur") is not None else NO_DURATION,
        args=EventArgs(**{
            field: _whole(next((args[s] for s in spellings if s in args), None), getattr(NO_ARGS, field))
            for field, spellings in ARGUMENTS.items()
        }),
    )  # fmt: skip


def _text(value: Any) -> str:
    """Text that can be shown: bytes that are no UTF-8 become question marks."""
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return text.encode("utf-8", "replace").decode()


def _id(value: Any) -> int | str:
    return _text(value) if isinstance(value, str) else _whole(value, 0)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _whole(value: Any, default: int) -> int:
    """The value as an integer that fits a column, or the default."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 2**63 else default
    number = _number(value)
    return int(number) if abs(number) < 2**63 else default
