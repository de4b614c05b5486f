"""What an acceleration is: a frozen dataclass whose fields are its knobs and whose docstring is its method card."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from accel.errors import Reason

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

Layer = Literal[
    "model",
    "numerics",
    "settings",
    "compile",
    "data",
    "optimizer",
    "batch",
    "hygiene",
    "threads",
    "environment",
    "distributed",
]
Effect = Literal["exact", "close", "changes training"]
Row = TypeVar("Row")

# The layers of the stack, in the order and the words in which lists show them.
LAYERS: dict[Layer, str] = {
    "model": "Model",
    "compile": "Compilation",
    "numerics": "Number formats",
    "settings": "Settings of torch",
    "data": "Data pipeline",
    "optimizer": "Optimizer",
    "batch": "Batch",
    "hygiene": "Unneeded work",
    "threads": "Threads",
    "environment": "Environment",
    "distributed": "Several processes",
}

CARD_HEADINGS = ("What it does", "When it helps", "When it hurts", "In plain PyTorch", "References")


@dataclass(frozen=True)
class Proof:
    """What was read back to see whether an acceleration took effect.

    >>> Proof(took_effect=True, evidence="forward ran in torch.bfloat16")
    """

    took_effect: bool
    evidence: str


class Together(Protocol):
    """What an entry may ask of the plan that it is part of (a `Plan`)."""

    @property
    def entries(self) -> tuple[Acceleration, ...]:
        """The entries of the plan, in the order they are applied."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""

    def objects_of(self, name: str) -> tuple[str, ...]:
        """The names of the objects that the entry of that name acts on; empty means all."""


@runtime_checkable
class Acceleration(Protocol):
    """One entry of the catalogue; see CONTRIBUTING for the four steps that add one.

    One that changes other kinds of objects than its layer usually does names them in `changes`, as fields of Replica. One that
    others can leave nothing to do has `why_not_beside(plan, workload)`, asked where `why_not` gives no reason. One that makes
    sense on several ranks only has `needs_ranks = True`: trials and keep refuse it, `%%accel ddp --plan` applies it. The one that
    brings the ranks has `makes_ranks = True`: a trial measures it in a group of processes; keep and `--plan` refuse it. One
    whose undo cannot give back what training would have made of the objects says in `after_undo` what came back and what not.
    `other_settings(machine)` gives the same entry with other knobs that a search tries once it is good; `saves_memory = True`
    says that it costs time, so that a search for speed does without it, and one for what fits into memory does not.
    `gains_from_second_epoch = True`: a search leaves it out where the training has one epoch, and a trial first warms up for one.
    """

    name: ClassVar[str]
    layer: ClassVar[Layer]
    effect: ClassVar[Effect]
    needs_own_process: ClassVar[bool]
    """True when the effect belongs to a whole process (allocator): its trial compares processes as they run."""
    conflicts: ClassVar[tuple[str, ...]]

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Reasons why it cannot work here, and what to do; empty means it can."""

    def apply(self, replica: Replica) -> AbstractContextManager[None]:
        """Change the replica's objects in place; leaving the context is the undo, bit for bit."""

    def took_effect(self, replica: Replica) -> Proof:
        """Read the effect back, after a few steps ran under `apply`."""

    def as_code(self, workload: Workload) -> str:
        """The same in plain PyTorch: statements to run once before the cell."""


def card(entry: type[Acceleration]) -> tuple[str, dict[str, str]]:
    """The card of an entry: its one sentence, and the text under each heading, in the card's order.

    >>> sentence, sections = card(by_name("autocast"))
    >>> list(sections) == list(CARD_HEADINGS)
    True
    """
    sentence, *rest = (inspect.getdoc(entry) or "").splitlines()
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in rest:
        if line and not line.startswith(" "):
            lines = sections.setdefault(line, [])
        else:
            lines.append(line.removeprefix("    "))
    return sentence, {heading: "\n".join(text).strip("\n") for heading, text in sections.items()}


def by_layer(rows: Iterable[Row], layer_of: Callable[[Row], Layer]) -> list[tuple[str, list[Row]]]:
    """The rows of each layer together, under its title; layers without rows are left out.

    >>> [title for title, _ in by_layer(CATALOGUE, lambda entry: entry.layer)]
    ['Model', 'Compilation', 'Number formats', 'Data pipeline', 'Optimizer', 'Threads', 'Environment']
    """
    rows = list(rows)
    groups = ((title, [row for row in rows if layer_of(row) == layer]) for layer, title in LAYERS.items())
    return [(title, group) for title, group in groups if group]
