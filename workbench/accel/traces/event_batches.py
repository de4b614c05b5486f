"""The events of a trace in batches, in bounded memory, however large or damaged the file is.

A batch is cut where one event ends and the next begins. Whether a place that looks like one is one, the decoder tells: a slice
is valid JSON only if it ends where an event ends. So a wrong guess costs time, never an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from accel.traces.damage import Damage
from accel.traces.trace_event import TraceEvent, decode_events, lenient_event

ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
SEAM = re.compile(rb"\}\s*,\s*\{")
OBJECT = re.compile(r"\{\s*\"")
EVENT = re.compile(r"\{\s*\"ph\"\s*:")  # how torch begins an event
NEAR_BYTES, SEAM_BYTES = (
    1 << 12,
    1 << 16,
)  # how far from the end of a piece a seam is looked for, at first and then
GUESSES = 3
MOST_HEADER_BYTES = MOST_EVENT_BYTES = 64 << 20
IN_VAIN = 8  # how often a piece is read over, looking for the end of what cannot be read
LEAST_IN_VAIN = 1 << 24
WINDOW = 1 << 14  # letters, far more than an event has
DEEP_LETTERS = 1 << 16  # what an attempt counts that ends because objects are nested too deep
NO_JSON = (msgspec.DecodeError, ValueError, RecursionError)  # the last: nested deeper than Python can follow
CUT_OFF = "The file is cut off: the events before that place were read."

scan = json.JSONDecoder(strict=False).raw_decode  # takes NaN, and line ends within names


@dataclass
class EventBatches:
    """Reads the pieces of a file; `header` is filled as they pass, and complete at the end.

    >>> batches = EventBatches(read_pieces(path, damage), damage)
    >>> for events in batches: ...
    >>> batches.header["deviceProperties"]

    `has_events` says whether there was a list of events at all.
    """

    pieces: Iterator[bytes]
    damage: Damage
    header: dict[str, Any] = field(default_factory=dict)
    has_events: bool = False
    read_bytes: int = 0
    _is_bare: bool = (
        False  # the list alone, as torch before 1.8 wrote it, and EventList.export_chrome_trace still does
    )

    def __iter__(self) -> Iterator[list[TraceEvent]]:
        buffer = self._to_first_event()
        if not self.has_events:
            return
        for piece in self._counted():
            read = self._up_to_seam(buffer, piece)
            if read is None:
                buffer += piece
                read = self._whole_events(buffer)
                rest = buffer[read.upto :]
            else:
                rest = piece[read.upto - len(buffer) :]
            yield read.events
            if read.is_end:
                self._read_long_tail(bytearray(rest))
                return
            buffer = rest
        read = self._last_events(buffer)
        yield read.events
        if read.is_end:
            self._read_tail(buffer[read.upto :])
        else:
            self.damage.whole_file.append(CUT_OFF)

    def _read_long_tail(self, tail: bytearray) -> None:
        for piece in self._counted():
            tail += piece
            if len(tail) > MOST_HEADER_BYTES:
                self.damage.whole_file.append("What follows the events is too long and was not read.")
                return
        self._read_tail(bytes(tail))

    def _counted(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.read_bytes += len(piece)
            yield piece

    def _to_first_event(self) -> bytes:
        """What follows the bracket that opens the list of events."""
        buffer = b""
        for piece in self._counted():
            buffer += piece
            start = buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
            if start.startswith(b"["):
                self.has_events = self._is_bare = True
                return start[1:]
            for found in ARRAY.finditer(buffer):
                if self._read_head(buffer[: found.start()]):
                    return buffer[found.end() :]
            if len(buffer) > MOST_HEADER_BYTES:
                break
        if found_anyway := ARRAY.search(buffer):
            self.has_events = True
            self.damage.whole_file.append("What the file says of its machine cannot be read.")
            return buffer[found_anyway.end() :]
        self._read_without_events(buffer)
        return b""

    def _read_head(self, head: bytes) -> bool:
        try:
            self.header.update(msgspec.json.decode(head + b'"traceEvents":0}'))
        except (*NO_JSON, TypeError):
            return False
        self.has_events = True
        return True

    def _read_without_events(self, buffer: bytes) -> None:
        try:
            decoded = msgspec.json.decode(buffer)
        except NO_JSON:
            return
        if isinstance(decoded, dict):
            self.header.update(decoded)

    def _read_tail(self, tail: bytes) -> None:
        try:
            if not self._is_bare:
                self.header.update(msgspec.json.decode(b'{"traceEvents":0' + tail))
            is_closed = not (self._is_bare and tail.strip())
        except NO_JSON:
            is_closed = False
        if not is_closed:
            self.damage.whole_file.append("The file is cut off or damaged after its last event.")

    def _up_to_seam(self, rest: bytes, piece: bytes) -> _Read | None:
        """The common case, with a single copy of the piece: its last seam is one, and all before it is sound."""
        seams = [seam.start() + 1 for seam in SEAM.finditer(piece, max(0, len(piece) - NEAR_BYTES))]
        if not seams:
            return None
        try:
            return _Read(decode_events(rest, memoryview(piece)[: seams[-1]]), len(rest) + seams[-1], False)
        except NO_JSON:
            return None

    def _whole_events(self, buffer: bytes) -> _Read:
        """The events up to a seam near the end; what follows it waits for more bytes."""
        seams = _last_seams(buffer)
        for upto in seams[:GUESSES]:
            try:
                return _Read(decode_events(buffer[:upto]), upto, False)
            except (msgspec.ValidationError, RecursionError):
                break
            except NO_JSON:
                continue
        if len(buffer) > MOST_EVENT_BYTES:  # no event is so large: the rest of this stretch is lost
            read = self._leniently(buffer, is_last=False)
            self.damage.counts["unreadable"] += not read.upto
            return read if read.upto else _Read([], len(buffer), False)
        return self._leniently(buffer, is_last=False) if seams else _Read([], 0, False)

    def _last_events(self, buffer: bytes) -> _Read:
        end = len(buffer)
        for _ in range(GUESSES):
            end = buffer.rfind(b"]", 0, end)
            if end < 0:
                break
            try:
                events = decode_events(buffer[:end])
                return _Read(events, end + 1, True)
            except RecursionError:
                break
            except NO_JSON:
                continue
        return self._leniently(buffer, is_last=True)

    def _leniently(self, buffer: bytes, *, is_last: bool) -> _Read:
        """Event by event; what cannot be read is skipped up to the next seam and counted."""
        text = buffer.decode("utf-8", "surrogateescape")
        events: list[TraceEvent] = []
        patience = dict.fromkeys((OBJECT, EVENT), max(IN_VAIN * len(text), LEAST_IN_VAIN))
        place, end = 0, len(text)
        while True:
            place = _past_blanks(text, place)
            if place >= end:
                return _Read(events, len(buffer), False)
            if text[place] == "]":
                return _Read(events, _bytes_of(text, place + 1), True)
            try:
                decoded, after = _scanned(text, place)
            except (ValueError, RecursionError):
                following = _next_event(text, place, patience)
                if following < 0:
                    break
                self.damage.counts["unreadable"] += 1
                place = following
                continue
            if isinstance(decoded, dict):
                events.append(lenient_event(decoded))
            else:
                self.damage.counts["not_an_event"] += 1
            place = after
        return _Read(events, len(buffer) if is_last else _bytes_of(text, place), False)


class _Read(NamedTuple):
    """Events, how many bytes they took, and whether the list of events ended there."""

    events: list[TraceEvent]
    upto: int
    is_end: bool


def _last_seams(buffer: bytes) -> list[int]:
    """Where an event seems to end, the last place first."""
    for reach in (SEAM_BYTES, len(buffer)):
        found = [seam.start() + 1 for seam in SEAM.finditer(buffer, max(0, len(buffer) - reach))]
        if found:
            break
    return found[::-1]


def _past_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n,":
        place += 1
    return place


def _next_event(text: str, place: int, patience: dict[re.Pattern[str], int]) -> int:
    """Where the next object that can be read begins, after a place that cannot; -1 when there is none yet.

    Any object is tried at first, then only what begins as torch's events do, then none: the end of the text is returned.
    `patience` holds how many letters may be read in vain for each; objects nested in each other are read once for each level.
    """
    for pattern in (OBJECT, EVENT):
        for found in pattern.finditer(text, place + 1):
            start = found.start()
            if patience[pattern] <= 0:
                place = start - 1
                break
            is_event, letters = _tried(text, start)
            if is_event:
                return start
            patience[pattern] -= letters
        else:
            return -1
    return len(text)


def _scanned(text: str, start: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends; json.JSONDecodeError, its `pos` in the text, ValueError, RecursionError.

    A window is read first: an error counts the lines from the beginning of what is read, which takes long in a whole piece.
    """
    window = text[start : start + WINDOW]
    try:
        decoded, after = scan(window, 0)
        if after < WINDOW:
            return decoded, start + after
    except json.JSONDecodeError as error:
        is_cut = error.msg.startswith("Unterminated string") or error.pos > WINDOW - 16
        if not is_cut or len(window) < WINDOW:
            error.pos += start
            raise
    return scan(text, start)


def _tried(text: str, start: int) -> tuple[bool, int]:
    """Whether an event begins there, and how many letters were read to find out."""
    try:
        decoded, after = _scanned(text, start)
    except json.JSONDecodeError as error:
        return False, error.pos - start + 1
    except (ValueError, RecursionError):  # a number of too many digits is a ValueError
        return False, DEEP_LETTERS
    return isinstance(decoded, dict) and "ph" in decoded, after - start


def _bytes_of(text: str, letters: int) -> int:
    return len(text[:letters].encode("utf-8", "surrogateescape"))
