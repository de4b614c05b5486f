"""What OpenMP runtimes print of themselves where OMP_DISPLAY_ENV is set: a block each, in a grammar of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# GNU:   "  OMP_PROC_BIND = 'FALSE'"            Intel: "  [host] OMP_PROC_BIND='false'", "   OMP_X: value is not defined"
_LINE = re.compile(r"^\s*(?:\[(\w+)\]\s*)?(\w+)\s*(?:=\s*'(.*?)'?|: value is not defined)\s*$")
_BEGIN, _END = "OPENMP DISPLAY ENVIRONMENT BEGIN", "OPENMP DISPLAY ENVIRONMENT END"
DISPLAY = ("OMP_DISPLAY_ENV", "VERBOSE")  # else Intel's runtime is silent about its own variables


@dataclass(frozen=True)
class Displayed:
    """The settings of one runtime, by their names; one without a value is left out."""

    settings: dict[str, str]
    is_intel: bool = False
    """Whether Intel's or LLVM's runtime printed it: its settings say where they hold."""


def displayed(text: str) -> tuple[Displayed, ...]:
    """The blocks in what a process printed, one for each runtime that it loaded.

    >>> text = "OPENMP DISPLAY ENVIRONMENT BEGIN\\n  OMP_PROC_BIND = 'CLOSE'\\nOPENMP DISPLAY ENVIRONMENT END"
    >>> displayed(text)[0].settings
    {'OMP_PROC_BIND': 'CLOSE'}
    """
    return tuple(
        Displayed(dict(_settings(block)), any("[host]" in line for line in block))
        for block in _blocks(text.splitlines())
    )


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] | None = None
    for line in lines:
        if _BEGIN in line:
            block = []
        elif _END in line and block is not None:
            yield block
            block = None
        elif block is not None:
            block.append(line)


def _settings(block: list[str]) -> Iterator[tuple[str, str]]:
    for line in block:
        found = _LINE.match(line)
        if found and found.group(3) is not None:
            yield found.group(2), found.group(3)
