"""uv as a process that ends with ours, and whose words are passed on while it works."""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from accel.errors import AccelError
from accel.processes.process_tree import MarkedProcess, end_tree

SAID_EVERY_S = 1.0
_KEPT_LINES = 40
# Asks to be ended with the thread that started it, and becomes uv.
_ENDS_WITH_US = (
    "import ctypes, os, sys\n"
    "sys.platform == 'linux' and ctypes.CDLL(None).prctl(1, 9)\n"
    "os.getppid() == int(sys.argv[1]) or os._exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


def uv_program() -> str:
    """The file of uv: that of its package here, or on PATH. Raises AccelError with how to get it."""
    if find_spec("uv") is not None:
        from uv import find_uv_bin

        return str(find_uv_bin())
    found = shutil.which("uv")
    if found is None:
        raise AccelError(
            "Making an environment", because="uv, which makes it, is not installed",
            do="pip install 'accel-workbench[env]', then try again.",
        )  # fmt: skip
    return found


def run_uv(
    words: Sequence[str],
    *,
    folder: Path,
    variables: Mapping[str, str],
    say: Callable[[str], None],
    asked: str,
) -> None:
    """Run it to its end, in a folder that has no settings of a project.

    `say` is called with its latest line, and every second in between with an empty text.

    >>> run_uv(["venv", "x"], folder=place(), variables={}, say=print, asked="%accel env create intel")

    Raises AccelError with its last lines where it fails. An interrupt ends it, and goes on.
    """
    program, lines = uv_program(), queue.SimpleQueue[str]()
    process = MarkedProcess(
        [sys.executable, "-S", "-c", _ENDS_WITH_US, str(os.getpid()), program, *words],
        env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True, cwd=folder,
    )  # fmt: skip
    assert process.stderr is not None
    reader = threading.Thread(target=_read, args=(process.stderr, lines), daemon=True)
    reader.start()
    kept: list[str] = []
    try:
        while reader.is_alive() or not lines.empty():
            kept = [*kept, *_next(lines, say)][-_KEPT_LINES:]
        status = process.wait()
    except BaseException:
        end_tree(process)
        raise
    if status:
        raise AccelError(
            asked,
            because=_why(kept, status),
            do="Nothing of it is left: try again once that is mended, or ask for other versions.",
        )


def _next(lines: queue.SimpleQueue[str], say: Callable[[str], None]) -> list[str]:
    try:
        line = lines.get(timeout=SAID_EVERY_S)
    except queue.Empty:
        say("")
        return []
    say(line)
    return [line]


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _read(stream: IO[bytes], lines: queue.SimpleQueue[str]) -> None:
    with stream:
        for line in stream:
            if text := _COLOUR.sub("", line.decode(errors="replace")).strip():
                lines.put(text)


def _why(kept: list[str], status: int) -> str:
    """uv's own words: from its error on, where it names one."""
    at = next(
        (n for n, line in enumerate(kept) if line.startswith(("error", "×", "Caused"))), max(len(kept) - 3, 0)
    )
    said = " ".join(line.lstrip("×╰─▶├│ ") for line in kept[at:])
    return said[:600] or f"uv ended with status {status}"
