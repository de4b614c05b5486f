"""What a rank prints: drained as it comes, shown where somebody listens, and its end kept for error messages."""

from __future__ import annotations

import codecs
import os
import threading
import traceback
from collections.abc import Callable
from typing import IO

from accel.distributed.end_of_output import END_OF_OUTPUT

_KEPT_BYTES = 256 << 10
_MARK = (END_OF_OUTPUT + "\n").encode()


class RankOutput(threading.Thread):
    """Drains a rank's output; `listen` gets each piece, without the mark that ends a run's.

    >>> output = RankOutput(process.stdout); output.listen(print)
    """

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(name="accel-rank-output", daemon=True)
        self._stream, self._kept, self.bytes_read = stream, b"", 0
        self._listener: Callable[[str], object] | None = None
        self._run, self._pending = b"", b""
        self._decode = _decoder()
        self._is_over, self._came = threading.Event(), threading.Condition()
        self.start()

    def begin(self, listener: Callable[[str], object] | None) -> None:
        """A run begins: its output goes to the listener, and into `of_run`."""
        self._listener, self._run, self._pending, self._decode = listener, b"", b"", _decoder()
        self._is_over.clear()

    def stop_listening(self) -> None:
        """Nobody is shown what comes now."""
        self._listener = None

    def wait_for_end(self, timeout_s: float) -> None:
        """Wait until everything that the run printed has arrived."""
        self._is_over.wait(timeout_s)

    def wait_for(self, is_there: Callable[[], bool], timeout_s: float) -> None:
        """Wait until something has arrived."""
        with self._came:
            self._came.wait_for(is_there, timeout_s)

    @property
    def of_run(self) -> str:
        """What this run printed, as far as it is kept."""
        return self._run.decode(errors="replace")

    @property
    def text(self) -> str:
        """The end of everything that was printed."""
        return self._kept.decode(errors="replace")

    def since(self, bytes_read: int) -> str:
        """What came after so many bytes, as far as it is kept."""
        new = self.bytes_read - bytes_read
        return self._kept[-new:].decode(errors="replace") if new > 0 else ""

    def run(self) -> None:
        with self._stream:
            while data := os.read(self._stream.fileno(), 65536):
                self.bytes_read += len(data)
                with self._came:
                    self._kept = (self._kept + data)[-_KEPT_BYTES:]
                    self._came.notify_all()
                self._pass_on(data)
        self._is_over.set()

    def _pass_on(self, data: bytes) -> None:
        """Everything but the mark, which may come in two pieces."""
        data = self._pending + data
        before, mark, after = data.partition(_MARK)
        if mark:
            self._pending, data = b"", before + after
        else:
            keep = next(
                (n for n in range(min(len(data), len(_MARK) - 1), 0, -1) if _MARK.startswith(data[-n:])), 0
            )
            self._pending = data[len(data) - keep :] if keep else b""
            data = data[: len(data) - keep] if keep else data
        if data:
            self._run = (self._run + data)[-_KEPT_BYTES:]
            if self._listener is not None:
                try:
                    self._listener(self._decode(data))
                except Exception:  # whoever shows it; a rank must be able to go on printing
                    self._listener = None
                    traceback.print_exc()
        if mark:
            self._is_over.set()


def _decoder() -> Callable[[bytes], str]:
    """A character may come in two pieces."""
    return codecs.getincrementaldecoder("utf-8")(errors="replace").decode
