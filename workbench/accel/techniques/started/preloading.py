"""Libraries that are loaded before all others: where they lie."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable

_LISTED = re.compile(r"^\s*(\S+) .*=> (\S+)$", re.MULTILINE)


def library_file(names: Iterable[str]) -> str | None:
    """The first of these libraries that the system's loader knows; None where it knows none.

    >>> library_file(["libtcmalloc_minimal.so.4"])
    '/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4'
    """
    known = _known_to_the_loader()
    return next((known[name] for name in names if name in known), None)


def _known_to_the_loader() -> dict[str, str]:
    program = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if program is None:
        return {}
    printed = subprocess.run([program, "-p"], capture_output=True, text=True, check=False).stdout
    return {name: file for name, file in reversed(_LISTED.findall(printed)) if os.path.isfile(file)}
