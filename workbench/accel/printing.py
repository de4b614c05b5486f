"""Letters that a terminal lacks, printed as near ones: a table of lines and arrows stays one where only ASCII can be shown."""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

NEAREST = "accel.nearest"
_NEAR = {
    "├": "|", "└": "`", "│": "|", "─": "-", "–": "-", "—": "-", "−": "-", "→": ">", "×": "x", "·": "*", "●": "*",
    "°": " ", "µ": "u", "✓": "+", "✗": "x", "⚠": "!", "▲": "^", "▼": "v", "“": '"', "”": '"', "’": "'",
}  # fmt: skip


def nearest(text: str, encoding: str) -> str:
    """The text with as many letters, each of them one that the encoding has.

    >>> nearest("├─ 2 µs", "ascii")
    '|- 2 us'
    """
    return "".join(_near(letter, encoding) for letter in text)


def print_nearest() -> None:
    """From now on standard output takes every text, whatever the terminal's or the file's encoding is."""
    codecs.register_error(NEAREST, _replace)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=NEAREST)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return nearest(error.object[error.start : error.end], error.encoding), error.end


def _near(letter: str, encoding: str) -> str:
    plain = unicodedata.normalize("NFKD", letter)[:1]
    for candidate in (letter, _NEAR.get(letter, plain)):
        try:
            candidate.encode(encoding)
        except UnicodeEncodeError:
            continue
        return candidate
    return "?"
