"""What each rank tells while it trains: JSON lines in the job's folder, for any machine, also when the notebook is gone."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from accel.distributed.ranks.rank_messages import RankReady
from accel.distributed.ranks.rank_page import RankLane

_EVERY_S, _SLOWEST_S = 0.3, 5.0
_SLOWER_EVERY_S = 300.0  # a job of a day writes a line every five seconds, not ten in three
_TAIL_BYTES = 64 << 10


Found = TypeVar("Found")


class Began(msgspec.Struct, frozen=True):
    """Who and where a rank is, in its latest attempt: a file of its own."""

    rank: int
    attempt: int
    pid: int
    ready: RankReady
    at_s: float


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """What it does now; `stands` says where, once it has not come on for longer than it may."""

    at_s: float
    step: int
    samples: int
    phase: str
    loss: float | None
    seconds: float
    communication_s: float
    step_ms: float
    memory_bytes: int
    beats: int
    evaluation_s: float
    first_step_s: float
    stands: str = ""

    def of(self, rank: int) -> RankLane:
        """As the lane that panels and results know."""
        values = {
            name: getattr(self, name) for name in self.__struct_fields__ if name not in ("at_s", "stands")
        }
        return RankLane(rank, **(values | {"loss": float("nan") if self.loss is None else self.loss}))


_decode = msgspec.json.Decoder(Lane).decode


class RankLines(threading.Thread):
    """In a rank: writes its lane again and again, and hears the wish to stop.

    >>> lines = RankLines(path, lambda: page.lane(0), on_turn=look_for_wish, timeout_s=60)
    >>> lines.start(); ...; lines.end()

    A disk that is full, or gone, costs lines, not the training; `trouble` says so.
    """

    def __init__(
        self, path: Path, lane: Callable[[], RankLane], *, on_turn: Callable[[], object], timeout_s: float
    ) -> None:
        super().__init__(name="accel-lines", daemon=True)
        self._path, self._lane, self._on_turn, self._timeout_s = path, lane, on_turn, timeout_s
        self._over = threading.Event()
        self._main = threading.main_thread().ident or 0
        self.trouble = ""

    def end(self) -> None:
        """A last line."""
        self._over.set()
        self.join()
        self._append(self._line())

    def run(self) -> None:
        began = changed_at = time.monotonic()
        last, has_told = (-1, -1), False
        while not self._over.wait(
            min(_SLOWEST_S, max(_EVERY_S, (time.monotonic() - began) / _SLOWER_EVERY_S))
        ):
            try:
                self._on_turn()
            except OSError as error:  # of a shared disk, for a moment
                self.trouble = self.trouble or f"{self._path.parent}: {error.strerror or error}"
            now, lane = time.monotonic(), self._lane()
            signs = (lane.beats, self._printed_bytes())  # as of local ranks: who prints is not stuck
            if signs != last:
                last, changed_at, has_told = signs, now, False
                self._append(self._line())
            elif lane.step and not has_told and now - changed_at > self._timeout_s:
                has_told = True
                self._append(self._line(self._stands()))

    def _line(self, stands: str = "") -> Lane:
        lane = self._lane()
        values = {name: getattr(lane, name) for name in Lane.__struct_fields__ if hasattr(lane, name)}
        loss = lane.loss if lane.loss == lane.loss else None  # JSON has no NaN
        return Lane(**(values | {"at_s": time.time(), "loss": loss, "stands": stands}))

    def _printed_bytes(self) -> int:
        sys.stdout.flush()
        return os.fstat(1).st_size  # of the file that this process prints into

    def _stands(self) -> str:
        """Where the main thread is, its innermost line first."""
        frame = sys._current_frames().get(self._main)
        return "".join(reversed(traceback.format_stack(frame))) if frame is not None else ""

    def _append(self, line: Lane) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, msgspec.json.encode(line) + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            self.trouble = self.trouble or f"{self._path}: {error.strerror or error}"


class WhenChanged(Generic[Found]):
    """What a file holds, read again where it has changed since: a shared disk is asked for its size, not for all of it.

    >>> lines = WhenChanged(folder.ranks / "0.jsonl", last_line)
    >>> lines.newest().step
    """

    def __init__(self, path: Path, read: Callable[[Path], Found | None]) -> None:
        self._path, self._read = path, read
        self._sign: tuple[int, int, int] | None = None
        self._found: Found | None = None

    def newest(self) -> Found | None:
        """None where there is no such file yet."""
        try:
            status = os.stat(self._path)
        except OSError:
            return self._found
        sign = (status.st_ino, status.st_mtime_ns, status.st_size)
        if sign != self._sign:
            self._found, self._sign = self._read(self._path), sign
        return self._found


def began_in(path: Path) -> Began | None:
    """What a rank wrote as it began; None where that cannot be read."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=Began)
    return None


def last_line(path: Path) -> Lane | None:
    """The newest lane in a file; None where a rank has told nothing yet. One line may be half written, or half read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    for line in reversed(lines):
        with suppress(msgspec.MsgspecError):
            return _decode(line)
    return None
