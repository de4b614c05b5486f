"""What steps one variant of a trial: a worker, or a group of them that trains together and answers as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from accel.plans.plan import Plan
from accel.processes.start import Start
from accel.workers.messages import Load

_Message = TypeVar("_Message")


@dataclass(frozen=True)
class Variant:
    """What one worker runs: the baseline (an empty plan) or a candidate.

    >>> Variant(Plan(), "as the notebook").label
    'baseline'
    """

    plan: Plan
    allocator: str  # as `notebook_allocator` says it

    @property
    def start(self) -> Start:
        """How its process is started."""
        return self.plan.start

    @property
    def label(self) -> str:
        """The plan as it is written: what its samples and rows are known by."""
        return str(self.plan)


class VariantWorker(Protocol):
    """Takes a workload, steps it by tokens, and is ended; `label` names it in errors."""

    label: str

    def wait_until_ready(self) -> None:
        """Wait for imports to be over."""

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        """Send a message."""

    def receive(self, kind: type[_Message], *, timeout_s: float) -> _Message:
        """The next answer; raises AccelError with what went wrong."""

    def close(self) -> None:
        """End every process of it; may be called from any thread, and twice."""


GroupFactory = Callable[[Variant, Load], VariantWorker | None]


def no_groups(variant: Variant, load: Load) -> VariantWorker | None:
    """Every variant is one process."""
    return None
