"""What `%accel oneccl` shows: whether ranks can talk by oneCCL here, and what to do where they cannot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from accel.distributed.oneccl.built import BUILD_COMMAND, build_folder, why_not_buildable, why_not_usable
from accel.shown import Shown


@dataclass(frozen=True)
class OneCcl(Shown):
    """Whether the backend "ccl" can be used; `why_not` and `do` are empty where it can.

    >>> print(accel.oneccl())
    """

    folder: str
    why_not: str
    do: str

    @property
    def is_usable(self) -> bool:
        """Whether it is built for this Python and torch."""
        return not self.why_not

    @property
    def line(self) -> str:
        """It in a sentence or two."""
        if self.is_usable:
            return f"oneCCL is built (experimental): %%accel ddp --backend ccl. It lies in {self.folder}."
        return f"{self.why_not}. {self.do}"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def oneccl_here(*, build: bool = False) -> OneCcl:
    """How it is here; `build`: build it first, which downloads Intel's wheels and takes a minute."""
    if build:
        from accel.distributed.oneccl.building import build as build_it

        build_it()
    why_not = why_not_usable()
    if not why_not:
        return OneCcl(str(build_folder()), "", "")
    because, do = why_not_buildable()
    if because:
        return OneCcl(
            str(build_folder()), f"{why_not}, and cannot be: {because}" if because != why_not else why_not, do
        )
    return OneCcl(
        str(build_folder()),
        why_not,
        f"{BUILD_COMMAND} builds it (a download, and half a minute of compiling).",
    )
