"""The objects that a cell builds itself, in a worker: each gets the plan before its first use, and is let go a run later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from accel.workload.applied_time import applying
from accel.workload.workload import look_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.plans.plan import Plan
    from accel.workload.replica import Replica


class FoundObjects:
    """Applies a plan to what is found, run after run of the cell.

    >>> with FoundObjects(plan, presented).taken_back() as found:
    ...     found.run_begins(); found.take(replica)

    An object takes the place of one that an earlier run built of the same class: else all runs' models would pile up.
    `presented` is what the plan is on now; it begins with what was there before the cell.
    """

    def __init__(
        self, plan: Plan, presented: list[Replica], prepare: Callable[[Replica], None] = lambda found: None
    ) -> None:
        self._plan, self._presented, self._prepare = plan, presented, prepare
        self._taken: list[tuple[int, Replica, ExitStack]] = []
        self._run = 0

    @contextmanager
    def taken_back(self) -> Iterator[FoundObjects]:
        """Everything that was found is as it was when the context ends."""
        with ExitStack() as everything:
            try:
                yield self
            finally:
                for _, _, stack in self._taken:
                    everything.callback(stack.close)

    def run_begins(self) -> None:
        """The cell is run (again): from now on, what it built before gives way."""
        self._run += 1

    def take(self, found: Replica) -> None:
        """Apply the plan to an object that is used for the first time."""
        with applying():
            self._take(found)

    def _take(self, found: Replica) -> None:
        earlier = (each for each in self._taken if each[0] < self._run and _kind(each[1]) == _kind(found))
        if (old := next(earlier, None)) is not None:
            self._taken.remove(old)
            self._presented.remove(old[1])
            old[2].close()
        self._prepare(found)
        stack = ExitStack()
        self._taken.append((self._run, found, stack))
        self._presented.append(found)
        stack.enter_context(self._plan.apply(found))


def in_use(presented: list[Replica], namespace: dict[str, Any]) -> list[Replica]:
    """`presented` without what found objects replaced under its name, as when `trainer.fit` builds a new optimizer.

    >>> in_use([Replica(optimizers={"net.optimizer_": old}), Replica(optimizers={"SGD": new})], namespace)[0].optimizers
    {}
    """
    first, *found = presented
    new = [thing for each in found for held in each.by_kind().values() for thing in held.values()]

    def is_replaced(name: str, thing: Any) -> bool:
        named = look_up(namespace, name)
        return type(named) is type(thing) and named is not thing and any(named is each for each in new)

    still: dict[str, Any] = {
        kind: {name: thing for name, thing in held.items() if not is_replaced(name, thing)}
        for kind, held in first.by_kind().items()
    }
    return [replace(first, **still), *found]


def _kind(replica: Replica) -> list[tuple[str, list[str]]]:
    """What it holds and of which class, which is the label of what `Discovery` found."""
    held = ((each.name, getattr(replica, each.name)) for each in fields(replica))
    return [(name, list(things)) for name, things in held if isinstance(things, dict) and things]
