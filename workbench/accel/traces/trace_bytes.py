"""The bytes of a trace file in pieces, unpacked if it is gzip; what a cut or corrupt gzip still gives, and says."""

from __future__ import annotations

import errno
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from accel.errors import AccelError
from accel.traces.damage import Damage

PIECE_BYTES = 1 << 19  # larger ones cost a fifth more: their objects leave the cache
GZIP = b"\x1f\x8b"
ACCEL_READS = "accel reads traces of torch.profiler: prof.export_chrome_trace('trace.json.gz')."
# How files begin that hold no trace of torch.profiler: what they are, and what reads them.
NOT_TRACES = {
    rb"PK\x03\x04": ("it is a zip archive", "Unpack it, then open the .json or .json.gz inside."),
    rb"\x28\xb5\x2f\xfd": ("it is compressed with zstd", "Decompress it with `zstd -d`, then open the .json inside."),
    rb"SQLite format 3": (
        "it is an SQLite database, as Nsight Systems and rocprof export",
        f"Read it with nsys stats, or on ROCm with rocpd. {ACCEL_READS}",
    ),
    rb"NVR\x00": (
        "it is a report of NVIDIA Nsight", f"Nsight Systems or Nsight Compute opens it. {ACCEL_READS}"
    ),
    rb"\x80[\x02-\x05]": (
        "it is a Python pickle, as torch.cuda.memory._dump_snapshot writes",
        "If it is a memory snapshot, open it at https://docs.pytorch.org/memory_viz; accel never unpickles a file, because a "
        f"pickle can run arbitrary code. {ACCEL_READS}",
    ),
    rb"\x0a[\x00-\xff]{1,64}\x12[\x00-\xff]/(?:host|device|job)": (
        "it is an XLA XSpace file (.xplane.pb), as JAX and TensorFlow write", f"xprof (TensorBoard) opens it. {ACCEL_READS}"
    ),
    rb"\s*<(?:!doctype|html|svg)": (
        "it is HTML or SVG, as export_memory_timeline('….html') writes", f"A browser opens it. {ACCEL_READS}"
    ),
    rb"\s*\[\s*\[": (
        "it is a list of lists, as export_memory_timeline('….json') writes",
        f"The file lists times and bytes by category. To view it, export the memory timeline as .html. {ACCEL_READS}",
    ),
}  # fmt: skip


def read_pieces(path: Path, damage: Damage, *, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """The file's content, about `piece_bytes` at a time; the end of a broken gzip is noted in `damage`.

    AccelError when the file cannot be read, is empty, or is plainly no JSON.
    """
    try:
        with path.open("rb") as file:
            if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is a device")  # it may have no end
            first = file.read(piece_bytes)
            _refuse_other_formats(path, first)
            pieces = _chain(first, iter(lambda: file.read(piece_bytes), b""))
            if first.startswith(GZIP):
                pieces = _unpacked(pieces, damage, piece_bytes)
                first = next(pieces, b"")
                _refuse_other_formats(path, first or b"[")
                pieces = _chain(first, pieces)
            yield from pieces
    except OSError as error:
        raise AccelError(
            f"open {path}",
            because=f"it cannot be read ({error.strerror})",
            do="Give the path of a trace file, or of a folder with one trace a rank.",
        ) from error


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _refuse_other_formats(path: Path, first: bytes) -> None:
    if not first:
        raise AccelError(
            f"open {path}", because="the file is empty", do="Export it again once the profiler has stopped."
        )
    for beginning, (because, do) in NOT_TRACES.items():
        if re.match(beginning, first, re.IGNORECASE | re.DOTALL):
            raise AccelError(f"open {path}", because=because, do=do)


def _unpacked(pieces: Iterator[bytes], damage: Damage, piece_bytes: int) -> Iterator[bytes]:
    """Unpack one or several gzip members in bounded memory."""
    unpacker, waiting, is_within = zlib.decompressobj(31), b"", False
    try:
        for piece in pieces:
            waiting += piece
            while waiting:
                is_within = True
                unpacked = unpacker.decompress(waiting, piece_bytes)
                waiting = unpacker.unconsumed_tail
                if unpacked:
                    yield unpacked
                if unpacker.eof:
                    waiting, unpacker, is_within = (
                        unpacker.unused_data.lstrip(b"\0"),
                        zlib.decompressobj(31),
                        False,
                    )
    except zlib.error as error:
        damage.whole_file.append(f"The gzip data is corrupt ({error}): what lay before that place was read.")
    else:
        if is_within:
            damage.whole_file.append("The gzip file is cut off: what it still holds was read.")
