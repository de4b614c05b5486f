"""What the ranks of a job print, read from the job's folder as it grows."""

from __future__ import annotations

import codecs
from contextlib import suppress

from accel.distributed.jobs.job_folder import JobFolder
from accel.distributed.ranks.run_outcome import Print

_KEPT_BYTES = 256 << 10
_PIECE_BYTES = 1 << 20


class RankTexts:
    """Passes on what is new since the last look, rank by rank.

    >>> texts = RankTexts(folder, ranks=2, on_print=lambda rank, text: print(rank, text))
    >>> texts.show()
    """

    def __init__(self, folder: JobFolder, ranks: int, on_print: Print | None) -> None:
        self._files = [folder.ranks / f"{rank}.txt" for rank in range(ranks)]
        self._on_print, self._read = on_print, [0] * ranks
        self._decoders = [codecs.getincrementaldecoder("utf-8")(errors="replace") for _ in range(ranks)]

    def show(self) -> None:
        """Pass on what has been printed since."""
        if self._on_print is None:
            return
        for rank, path in enumerate(self._files):
            with suppress(OSError), open(path, "rb") as file:  # not there yet, or a shared disk for a moment
                file.seek(self._read[rank])
                data = file.read(_PIECE_BYTES)
                self._read[rank] += len(data)
                if data:
                    self._on_print(rank, self._decoders[rank].decode(data))

    def text(self, rank: int) -> str:
        """The end of what a rank printed."""
        with suppress(OSError), open(self._files[rank], "rb") as file:
            file.seek(max(0, file.seek(0, 2) - _KEPT_BYTES))
            return file.read().decode(errors="replace")
        return ""
