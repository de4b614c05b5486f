"""What a trace does not tell: the objects of the notebook, its source, the machine. A rule that asks for it has no answer."""

from __future__ import annotations

from typing import NoReturn


class NotTold(Exception):
    """A rule asked for something that is not known of this profile; `diagnose_trace` then says nothing for that rule."""


class Untold:
    """In place of the workload or the machine that a trace is from.

    >>> Untold("the workload").objects()
    Traceback (most recent call last):
    accel.diagnosis.untold.NotTold: the workload's objects
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        raise NotTold(f"{self._what}'s {name}")
