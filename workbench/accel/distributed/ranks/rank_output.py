"""What a rank prints: drained as it comes, shown where somebody listens, and its end kept for error messages."""

from __future__ import annotations

import codecs
import threading
import traceback
from collections.abc import Callable
from typing import IO

from accel.processes.child import Output

END_OF_OUTPUT = "\x1eaccel: end of output\x1e"  # the line that a rank prints when a run is over
_MARK = (END_OF_OUTPUT + "\n").encode()


class RankOutput(Output):
    """Drains a rank's output; who listens to a run gets each piece, without the mark that ends it.

    >>> output = RankOutput(process.stdout); output.begin(print)
    """

    _KEPT_BYTES = 256 << 10

    def __init__(self, stream: IO[bytes]) -> None:
        self._listener: Callable[[str], object] | None = None
        self._run, self._pending = b"", b""
        self._decode = _decoder()
        self._is_over = threading.Event()
        super().__init__(stream)  # and it runs

    def begin(self, listener: Callable[[str], object] | None) -> None:
        """A run begins: its output goes to the listener, and into `of_run`."""
        self._listener, self._run, self._pending, self._decode = listener, b"", b"", _decoder()
        self._is_over.clear()

    def stop_listening(self) -> None:
        """What arrives from now on is not shown."""
        self._listener = None

    def wait_for_end(self, timeout_s: float) -> None:
        """Wait until everything that the run printed has arrived."""
        self._is_over.wait(timeout_s)

    @property
    def of_run(self) -> str:
        """What this run printed, as far as it is kept."""
        return self._run.decode(errors="replace")

    def run(self) -> None:
        super().run()
        self._is_over.set()

    def _take(self, data: bytes) -> None:
        super()._take(data)
        self._pass_on(data)

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
            self._run = (self._run + data)[-self._KEPT_BYTES :]
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
