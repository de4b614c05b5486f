"""Accelerations that are kept in the notebook: applied to the user's own objects until undone.

Each object gets the plan in a context of its own, and the process (threads, allocator) in another; undo leaves all of
them, last on first off. Dropping one entry is: unwind everything, then apply what is left. Objects that are built anew get
the plan when they are first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from accel.accelerations.plan import Plan
from accel.errors import AccelError
from accel.workload.discovery import Discovery
from accel.workload.replica import Replica
from accel.workload.workload import Workload, look_up


class LivePlan:
    """What is kept, for one workload.

    >>> live = LivePlan(workload); live.keep(Plan.parse("channels_last")); live.undo()
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.plan = Plan(())
        self._process = ExitStack()
        self._objects: dict[tuple[str, str], ExitStack] = {}

    def keep(self, plan: Plan) -> None:
        """Add a plan's entries to what is live; an entry of the same name takes the new knobs. All or nothing."""
        self._replace_by(self.plan.updated(plan))

    def undo(self, name: str | None = None) -> None:
        """Take one entry back, or (by default) everything, bit for bit."""
        if name is not None and name not in self.plan.names:
            kept = str(self.plan) if self.plan else "nothing"
            raise AccelError(
                f"%accel undo {name}", because=f"it is not kept; kept is {kept}", do="See %accel status."
            )
        self._replace_by(Plan(()) if name is None else self.plan.without(name))

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The notebook as if nothing were kept, for as long as the context lasts.

        What entries put into its objects (a cache that took an epoch to fill) stays alive, for them to find it again.
        """
        kept = self.plan
        held = [
            dict(vars(thing))
            for _, _, thing in _things(self.workload.objects())
            if hasattr(thing, "__dict__")
        ]
        self._replace_by(Plan(()))
        try:
            yield
        finally:
            self._replace_by(kept)
            held.clear()

    def follow(self, workload: Workload) -> bool:
        """Go on, as it is, under a later run of the same cell with the same objects; says whether it is one."""
        is_same = self.workload.source == workload.source and _identities(self.workload) == _identities(
            workload
        )
        if is_same:
            self.workload = workload
        return is_same

    def presented(self) -> list[Replica]:
        """Everything the plan is applied to now: the process, then each object."""
        return [Replica(), *(self._single(*thing) for thing in _things(self.workload.objects()))]

    def _replace_by(self, plan: Plan) -> None:
        before = self.plan
        self._unwind()
        try:
            self._apply(plan)
        except BaseException:
            self._unwind()
            self._apply(before)
            raise

    def _unwind(self) -> None:
        for stack in reversed(self._objects.values()):
            stack.close()
        self._objects.clear()
        self._process.close()
        self.plan = Plan(())

    def _apply(self, plan: Plan) -> None:
        self.plan = plan
        if not plan:
            return
        self._process.enter_context(plan.apply(Replica()))
        things = list(_things(self.workload.objects()))
        for kind, name, thing in things:
            self._apply_to(kind, name, thing)
        self._process.enter_context(Discovery(self._found, known=[thing for _, _, thing in things]))

    def _apply_to(self, kind: str, name: str, thing: object) -> None:
        if (old := self._objects.pop((kind, name), None)) is not None:
            old.close()  # the cell built this object anew: let go of the one before
        stack = self._objects[kind, name] = ExitStack()
        stack.enter_context(self.plan.apply(self._single(kind, name, thing)))

    def _single(self, kind: str, name: str, thing: object) -> Replica:
        whole = self.workload.objects()
        return Replica(**{kind: {name: thing}}, is_process_wide=False, trains_on=whole.device)  # type: ignore[arg-type]

    def _found(self, found: Replica) -> None:
        """An object is used for the first time: is it one of the workload's, built anew?

        Under its own name it takes the place of the one before. Inside a function, or before the name is bound, it is known
        by its class: the same cell, run again, builds the same kinds of objects.
        """
        for kind, _, thing in _things(found):
            roles = [role for role in self.workload.roles if role.kind == kind]
            named = [role.name for role in roles if look_up(self.workload.namespace, role.name) is thing]
            unnamed = [
                role
                for role in roles
                if role.is_built_by_cell or look_up(self.workload.namespace, role.name) is None
            ]
            if named or type(thing).__qualname__ in {role.class_name for role in unnamed}:
                self._apply_to(kind, named[0] if named else f"{type(thing).__name__} {id(thing):x}", thing)


def _things(replica: Replica) -> Iterator[tuple[str, str, object]]:
    for kind, named in replica.by_kind().items():
        for name, thing in named.items():
            yield kind, name, thing


def _identities(workload: Workload) -> set[tuple[str, str, int]]:
    """The objects by kind and name; code is made anew each time it is asked for."""
    return {(kind, name, id(thing)) for kind, name, thing in _things(workload.objects()) if kind != "codes"}
