"""A captured training cell: its code, the names it reads, and the objects it was seen to use."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from accel.workload.call_inputs import CallInputs
from accel.workload.namespace_reads import attributes_of, is_a
from accel.workload.replica import KINDS, Kind, Replica
from accel.workload.training_code import TrainingCode, training_codes

if TYPE_CHECKING:
    from accel.workload.forward_calls import CallsOfLine
    from accel.workload.read_backs import ReadBack
    from accel.workload.run_conditions import RunConditions

Boundary = Literal["optimizer", "backward", "none"]


@dataclass(frozen=True, eq=False)
class Role:
    """One object a cell was seen to use: what it is for, and what the user calls it.

    `name` is the variable in the namespace ("model"), an attribute of one ("trainer.model"), or, for an object that
    only a function knows, a label such as "Adam_1". Kinds are the field names of `Replica`.
    """

    kind: Kind
    name: str
    is_built_by_cell: bool
    reference: weakref.ref[Any]
    class_name: str = ""  # what an object built anew is known by where no name leads to it
    inputs: CallInputs | None = None  # of a model: its first call; None if only its parts were called
    built_on: tuple[int, ...] = ()  # lines of the cell that were running when it was built, innermost first
    used_on: tuple[int, ...] = ()  # the same, when it was first used

    @property
    def is_label(self) -> bool:
        """True if `name` is a placeholder such as Adam_1, because no variable holds the object."""
        start, _, number = self.name.rpartition("_")
        return number.isdecimal() and start == self.class_name.rpartition(".")[2]

    def current(self, namespace: Mapping[str, Any]) -> Any | None:
        """The notebook's object of that name if it still fills the role, else the one seen, else None."""
        named = look_up(namespace, self.name)
        return named if named is not None and is_of_kind(named, self.kind) else self.reference()


@dataclass(frozen=True, eq=False)
class Workload:
    """One training cell, remembered by profile: what `try` copies into workers and `keep` acts on.

    >>> workload.objects().models["model"]
    """

    cell: str
    source: str
    filename: str
    namespace: dict[str, Any] = field(repr=False)
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    roles: tuple[Role, ...]
    boundary: Boundary
    accumulation: int
    steps: int
    step_ms: float
    samples_per_step: int | None
    conditions: RunConditions | None = (
        None  # settings in force during the profiled run; None where none is known
    )
    clears_to_zeros: bool = False  # an optimizer's zero_grad(set_to_none=False) was called
    model_calls: tuple[CallsOfLine, ...] | None = None  # of that run, by line; None where none is known
    reads_back: tuple[ReadBack, ...] | None = None  # in its steps; None where none is known
    rereads: tuple[
        str, ...
    ] = ()  # names it may read that its own last run left: first written under a condition
    trains_on: str = ""  # the device of its models, where `roles` holds none of them

    @property
    def has_training_step(self) -> bool:
        """False for a cell with neither a backward nor an optimizer step: it can be profiled, but not tried."""
        return self.boundary != "none"

    def objects(self) -> Replica:
        """The notebook's current objects by role; an object that is gone is left out."""
        found: dict[str, Any] = {kind: {} for kind in KINDS}
        for role in self.roles:
            current = role.current(self.namespace)
            if current is not None:
                found[role.kind][role.name] = current
        noted = [role.inputs.device for role in self.roles if role.inputs is not None]
        trains_on = self.trains_on or next(filter(None, noted), "")
        return Replica(**found, codes=self._codes(), trains_on=trains_on)

    def _codes(self) -> dict[str, TrainingCode]:
        waiting = [read for read in self.reads_back or () if read.waits]
        return (
            training_codes(self.namespace, self.reads, self.filename, self.source, waiting) if waiting else {}
        )

    def seen_without_a_plan(self, before: Workload, *, changes_batches: bool) -> Workload:
        """The same cell, with the facts restored that the live plan hides, from an earlier run without it."""
        batches = before if changes_batches else self
        seen, seen_before = self.conditions, before.conditions
        if (
            seen is not None and seen_before is not None
        ):  # a kept plan enters autocast itself, and starts workers
            seen = replace(
                seen, autocast=seen_before.autocast, loader_workers=seen_before.loader_workers,
                fetches_in_threads=seen_before.fetches_in_threads,
            )  # fmt: skip
        return replace(
            self,
            accumulation=batches.accumulation,
            samples_per_step=batches.samples_per_step,
            clears_to_zeros=self.clears_to_zeros or before.clears_to_zeros,
            conditions=seen,
            reads_back=tuple(dict.fromkeys((*self._reads_of(before), *(self.reads_back or ())))),
        )

    def _reads_of(self, before: Workload) -> list[ReadBack]:
        """Those of an earlier run of the same cell, which had another name in tracebacks."""
        return [
            replace(read, filename=self.filename) if read.filename == before.filename else read
            for read in before.reads_back or ()
        ]

    def __str__(self) -> str:
        named = ", ".join(f"{role.name} ({role.kind})" for role in self.roles) or "no objects seen"
        if not self.has_training_step:
            return f"cell without a training step: {named}"
        per_step = f", {self.samples_per_step} samples each" if self.samples_per_step else ""
        return f"{self.steps} steps of {self.step_ms:.2f} ms{per_step}: {named}"


def look_up(namespace: Mapping[str, Any], name: str) -> Any | None:
    """The object of a plain or dotted name, or None; attributes are read from `__dict__`, running no code."""
    first, *rest = name.split(".")
    found = namespace.get(first)
    for part in rest:
        attributes = attributes_of(found)
        modules: Any = attributes.get("_modules")
        found = attributes.get(part, dict.get(modules, part) if is_a(modules, dict) else None)
    return found


def is_of_kind(value: object, kind: Kind) -> bool:
    """Whether an object can fill a role of that kind."""
    from torch import nn, optim
    from torch.amp import GradScaler
    from torch.optim.lr_scheduler import LRScheduler
    from torch.utils.data import DataLoader

    classes: dict[str, type] = {
        "models": nn.Module, "criteria": nn.Module, "optimizers": optim.Optimizer,
        "schedulers": LRScheduler, "scalers": GradScaler, "loaders": DataLoader,
    }  # fmt: skip
    return is_a(value, classes[kind])
