"""Plan: several accelerations together, parsed from and printed as `autocast(dtype="bf16")+channels_last`."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from accel.accelerations import CATALOGUE, by_name
from accel.accelerations.acceleration import Acceleration, Effect, Proof
from accel.accelerations.ddp import Ddp
from accel.accelerations.intraop_threads import IntraopThreads
from accel.accelerations.started import Started
from accel.errors import AccelError, Reason
from accel.plans.chosen import OF_THE_PROCESS, ON, only, only_roles, read_names, resolve
from accel.plans.knobs import as_literal, check_knobs, knobs_of
from accel.processes.start import Start, together
from accel.techniques.steps.live_optimizers import noted_optimizers
from accel.workload.generators import generators_kept

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

BASELINE = "baseline"
_LONGEST_TEXT = 2000
_EXAMPLE = 'Write for example autocast(dtype="bf16")+channels_last.'
_ORDER = {entry.name: position for position, entry in enumerate(CATALOGUE)}
_EFFECTS: tuple[Effect, ...] = ("exact", "close", "changes training")


@dataclass(frozen=True)
class Plan:
    """Accelerations to apply together; kept in catalogue order, however they were written.

    The empty plan is the baseline. Every entry can name the objects of the cell that it acts on,
    `channels_last(on="generator")`; `on` holds the names, by entry.

    Raises:
        AccelError: An entry is given twice, or two exclude each other.

    Examples:
        >>> plan = Plan.parse('autocast(dtype="bf16") + channels_last')
        >>> str(plan)
        'channels_last+autocast'
        >>> plan.names, plan.effect
        (('channels_last', 'autocast'), 'close')
    """

    entries: tuple[Acceleration, ...] = ()
    on: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.entries]
        for entry in self.entries:
            if names.count(entry.name) > 1:
                raise AccelError(f"plan with {entry.name} twice", because="each acceleration can be there only once",
                                 do=f"Write {entry.name} once, with the knobs you want.")  # fmt: skip
            for other in entry.conflicts:
                if other in names:
                    raise AccelError(
                        f"{entry.name}+{other}", because="they exclude each other", do=f"Leave out {other}."
                    )
        object.__setattr__(self, "entries", tuple(sorted(self.entries, key=lambda entry: _ORDER[entry.name])))
        object.__setattr__(
            self, "on", tuple(sorted(pair for pair in self.on if pair[0] in names and pair[1]))
        )

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read a plan as a user writes it; nothing in the text is evaluated, only literal values are read.

        Args:
            text: Names joined by "+", each with its knobs in parentheses; "" or "baseline" is the empty plan.

        Raises:
            UnknownName: A word is not known; names the nearest right one.
            AccelError: The text cannot be read, or a knob cannot have this value; says what it can be.

        Examples:
            >>> Plan.parse("gradient_accumulation(micro_batches=4)").entries[0].micro_batches
            4
        """
        if text.strip() in ("", BASELINE):
            return cls()
        parts = [_entry(node, text) for node in _terms(_expression(text))]
        return cls(tuple(entry for entry, _ in parts), tuple((entry.name, names) for entry, names in parts))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entries, in the order they are applied."""
        return tuple(entry.name for entry in self.entries)

    @property
    def effect(self) -> Effect:
        """What the plan does to training: the worst of its entries; "exact" for the baseline."""
        return max((entry.effect for entry in self.entries), key=_EFFECTS.index, default="exact")

    @property
    def needs_own_process(self) -> bool:
        """Whether a part of it belongs to a whole process, so that only processes can be compared."""
        return any(entry.needs_own_process for entry in self.entries)

    @property
    def saves_memory(self) -> bool:
        """Whether a part of it is there to make training fit into memory."""
        return any(getattr(entry, "saves_memory", False) for entry in self.entries)

    @property
    def compiles(self) -> bool:
        """Whether its first steps compile, which later ones earn back."""
        return any(
            entry.layer == "compile" or getattr(entry, "by", "") == "compile" for entry in self.entries
        )

    @property
    def is_slow_to_begin(self) -> bool:
        """Whether its first steps may take minutes: it compiles, or follows the whole model."""
        return self.compiles or any(getattr(entry, "is_slow_to_begin", False) for entry in self.entries)

    @property
    def gains_from_second_epoch(self) -> bool:
        """Whether the plan stores something in the first epoch that makes later epochs faster."""
        return any(getattr(entry, "gains_from_second_epoch", False) for entry in self.entries)

    @property
    def group(self) -> Ddp | None:
        """The entry that trains on several processes, if there is one."""
        return next((entry for entry in self.entries if isinstance(entry, Ddp)), None)

    @property
    def started(self) -> tuple[Started, ...]:
        """The entries that a process has to be started with."""
        return tuple(entry for entry in self.entries if isinstance(entry, Started))

    @cached_property
    def start(self) -> Start:
        """How a process has to be started for it: what its entries ask for together, when somebody first asks.

        Raises AccelError where they cannot be together.
        """
        found = together([entry.start() for entry in self.started])
        return found.with_cache(self._threads) if found.python else found

    @property
    def missing(self) -> list[Reason]:
        """What a process cannot be started with, because it is not here: an environment, a library."""
        return [reason for entry in self.started for reason in entry.missing()]

    @property
    def _threads(self) -> int:
        """Those of each operation: its own, or the notebook's."""
        import torch

        own = [entry.n for entry in self.entries if isinstance(entry, IntraopThreads)]
        of_all = (own[0] if own else None) or torch.get_num_threads()
        return of_all if self.group is None else self.group.threads or max(1, of_all // self.group.n)

    def check_starts(self, asked: str, *, in_container: bool = False) -> Start:
        """How a process is started for it; raises AccelError where nothing has to be, something is missing, or more is in it."""
        for each in self.started:
            for reason in () if in_container and each.containers_install_it else each.missing():
                raise AccelError(asked, because=reason.because, do=reason.do)
        if not self.start:
            raise AccelError(
                asked,
                because="no process has to be started with it",
                do=f"Its code comes first in the program: {self.lines}"
                if self.started
                else "Its code goes into the cell: keep it in the notebook, and %accel export writes it.",
            )
        for entry in self.entries:
            if not isinstance(entry, Started):
                raise AccelError(
                    asked, because=f"{entry.name} is no part of how a process starts",
                    do="Leave it out here; it goes into the cell.",
                )  # fmt: skip
        return self.start

    @property
    def lines(self) -> str:
        """What the program itself has to do, beside how it is started, as a line of Python; empty as a rule."""
        return "; ".join(entry.lines for entry in self.started if entry.needs_code)

    @property
    def how_to_run(self) -> str:
        """What to do with a plan that needs several processes, in a sentence; empty for any other."""
        if self.group is None:
            return ""
        rest = self.without(self.group.name)
        also = f" --plan {rest}" if rest else ""
        return f"Put {self.group.command}{also} over the cell."

    def objects_of(self, name: str) -> tuple[str, ...]:
        """The names of the objects that the entry of that name acts on; empty means all."""
        return dict(self.on).get(name, ())

    def without(self, name: str) -> Plan:
        """The plan without the entry of that name; the same plan when it is not in it. Raises UnknownName.

        Examples:
            >>> str(Plan.parse("autocast+channels_last").without("autocast"))
            'channels_last'
        """
        by_name(name)
        return replace(self, entries=tuple(entry for entry in self.entries if entry.name != name))

    def with_(self, entry: Acceleration, on: tuple[str, ...] = ()) -> Plan:
        """The plan with this entry, in place of one of the same name."""
        rest = self.without(entry.name)
        return Plan((*rest.entries, entry), (*rest.on, (entry.name, on)))

    def updated(self, other: Plan) -> Plan:
        """The plan with the entries of another, in place of those of the same name."""
        whole = self
        for entry in other.entries:
            whole = whole.with_(entry, other.objects_of(entry.name))
        return whole

    def only_on(self, *names: str) -> Plan:
        """The same entries, acting on these objects alone; those that say themselves on what are left as they are."""
        said = dict(self.on)
        return replace(self, on=tuple((entry.name, said.get(entry.name, names)) for entry in self.entries))

    def resolved(self, workload: Workload) -> Plan:
        """The plan with what belongs to the named objects named too; see `resolve`. Raises UnknownName."""
        return replace(self, on=tuple((name, resolve(names, workload)) for name, names in self.on))

    def seen_by(self, entry: Acceleration, workload: Workload) -> Workload:
        """The workload as the entry is to see it: with the objects it acts on."""
        names = self.objects_of(entry.name)
        return only_roles(workload, names) if names else workload

    def why_not(
        self, workload: Workload, machine: Machine, *, on_ranks: bool = False
    ) -> dict[str, list[Reason]]:
        """Reasons by entry name why it cannot work here; entries without a reason are left out: empty means it can.

        Args:
            workload: The cell.
            machine: The machine that it runs on.
            on_ranks: The plan is for a cell that trains on several ranks together, else for one process.
        """
        with (
            generators_kept()
        ):  # an entry may call the model to check it, and the model may draw random numbers
            reasons = {
                entry.name: [
                    *([] if on_ranks else self._needs_ranks(entry)),
                    *self._reasons(entry, workload, machine),
                ]
                for entry in self.entries
            }
        found = {name: why for name, why in reasons.items() if why}
        return found or self._why_not_started()

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Apply every entry to the replica's objects in place; leaving the context undoes them, last on, first off.

        Examples:
            >>> import torch
            >>> from accel.workload.replica import Replica
            >>> model = torch.nn.Conv2d(3, 8, 3)
            >>> with Plan.parse("channels_last").apply(Replica(models={"model": model})):
            ...     model.weight.is_contiguous(memory_format=torch.channels_last)
            True
        """
        with ExitStack() as stack:
            if self.entries:
                stack.enter_context(noted_optimizers())
            for entry in self.entries:
                stack.enter_context(entry.apply(self._part_for(entry, replica)))
            yield

    def proofs(self, replica: Replica) -> list[tuple[str, Proof]]:
        """Read back, still under `apply` and after a few steps, whether each entry took effect."""
        return [(entry.name, entry.took_effect(self._part_for(entry, replica))) for entry in self.entries]

    def _part_for(self, entry: Acceleration, replica: Replica) -> Replica:
        names = self.objects_of(entry.name)
        return only(replica, names) if names else replica

    def _reasons(self, entry: Acceleration, workload: Workload, machine: Machine) -> list[Reason]:
        seen = self.seen_by(entry, workload)
        reasons = [*self._of_the_process(entry), *entry.why_not(seen, machine)]
        beside = getattr(entry, "why_not_beside", None)
        return reasons or (beside(self, seen) if beside is not None else [])

    def _needs_ranks(self, entry: Acceleration) -> list[Reason]:
        if not getattr(entry, "needs_ranks", False):
            return []
        written = entry_text(entry, self.objects_of(entry.name))
        return [Reason(f"{entry.name} works on ranks", f"Put %%accel ddp --plan {written} over the cell.")]

    def _why_not_started(self) -> dict[str, list[Reason]]:
        """Two of its entries may want different interpreters, or different values of a variable."""
        try:
            self.start  # noqa: B018
        except AccelError as error:
            return {self.started[-1].name: [Reason(error.because[:1].upper() + error.because[1:], error.do)]}
        return {}

    def _of_the_process(self, entry: Acceleration) -> list[Reason]:
        names = self.objects_of(entry.name)
        if not names or not (entry.layer in OF_THE_PROCESS or isinstance(entry, Ddp)):
            return []
        return [Reason(f"{entry.name} changes the whole process, not {names[0]} alone", "Leave out on=.")]

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __str__(self) -> str:
        return "+".join(entry_text(each, self.objects_of(each.name)) for each in self.entries) or BASELINE


def entry_text(entry: Acceleration, on: tuple[str, ...] = ()) -> str:
    """An entry as it is written in a plan: its name, the knobs that are not at their default, and what it acts on.

    >>> entry_text(by_name("loader_workers")(n=4))
    'loader_workers(n=4)'
    """
    turned = [
        (knob.name, getattr(entry, knob.name))
        for knob in knobs_of(type(entry))
        if getattr(entry, knob.name) != knob.default
    ]
    turned += [(ON, ",".join(on))] if on else []
    return (
        f"{entry.name}({', '.join(f'{name}={as_literal(value)}' for name, value in turned)})"
        if turned
        else entry.name
    )


def _expression(text: str) -> ast.expr:
    if len(text) > _LONGEST_TEXT:
        raise AccelError("plan", because=f"it is {len(text)} characters long", do=_EXAMPLE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # an odd escape in the text is our error to report, not a SyntaxWarning
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise AccelError(f"plan {text!r}", because="it cannot be read", do=_EXAMPLE) from None


def _terms(node: ast.expr) -> list[ast.expr]:
    """The parts joined by +, from left to right; with a list of its own instead of recursion, however long it is."""
    waiting, terms = [node], []
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            waiting += [part.right, part.left]
        else:
            terms.append(part)
    return terms


def _entry(node: ast.expr, text: str) -> tuple[Acceleration, tuple[str, ...]]:
    """The entry, and the names of what it acts on."""
    if isinstance(node, ast.Name):
        return by_name(node.id)(), ()
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise AccelError(
            f"plan {text!r}", because="a plan is names of accelerations joined by +", do=_EXAMPLE
        )
    entry = by_name(node.func.id)
    if len(node.args) > 1 or any(keyword.arg is None for keyword in node.keywords):
        known = ", ".join(f"{knob.name}=…" for knob in knobs_of(entry))
        do = f"Write {entry.name}({known})." if known else f"Write {entry.name}; it has no knobs."
        raise AccelError(f"plan {text!r}", because="knobs but the first are given by name", do=do)
    if node.args and not knobs_of(entry):
        raise AccelError(f"plan {text!r}", because=f"{entry.name} has no knobs", do=f"Write {entry.name}.")
    first = [(knobs_of(entry)[0].name, value) for value in node.args]
    written = [*first, *((str(keyword.arg), keyword.value) for keyword in node.keywords)]
    given = [knob for knob, _ in written]
    if twice := next((knob for knob in given if given.count(knob) > 1), None):
        raise AccelError(
            f"plan {text!r}", because=f"{twice} is given twice", do=f"Write {twice}= once in {entry.name}."
        )
    knobs = {knob: _literal(value, knob, entry.name) for knob, value in written}
    names = _names_of_on(knobs.pop(ON), entry.name) if ON in knobs else ()
    check_knobs(entry, knobs)
    return entry(**knobs), names


def _names_of_on(written: object, name: str) -> tuple[str, ...]:
    if not isinstance(written, str):
        raise AccelError(
            f"{name}(on={written!r})", because="on is a text in quotes",
            do=f'Write for example {name}(on="generator").',
        )  # fmt: skip
    return read_names(written)


def _literal(node: ast.expr, knob: str, name: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        because = "a knob's value is a plain number, a text in quotes, True, False or None"
        raise AccelError(f"{name}({knob}=…)", because=because, do=_EXAMPLE) from None
