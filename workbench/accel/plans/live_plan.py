"""Accelerations that are kept in the notebook: applied to the user's own objects until undone.

Each object gets the plan in a context of its own, and the process (threads, allocator) in another; undo leaves all of
them, last on first off. Dropping one entry is: unwind everything, then apply what is left. Objects that are built anew get
the plan when they are first used, in the places of those that an earlier run of the cell built: no run's outlive the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from accel.accelerations.acceleration import Acceleration
from accel.accelerations.started import Started
from accel.errors import AccelError
from accel.hooks.attribute_patches import repair_patches
from accel.plans.plan import Plan
from accel.workload.applied_time import applying
from accel.workload.discovery import Discovery
from accel.workload.replica import Replica
from accel.workload.uninterrupted import uninterrupted
from accel.workload.workload import Role, Workload, look_up


class LivePlan:
    """What is kept, for one workload.

    >>> live = LivePlan(workload); live.keep(Plan.parse("channels_last")); live.undo()
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.plan = Plan(())
        self._process = ExitStack()
        self._objects: dict[tuple[str, str], tuple[Replica, ExitStack]] = {}  # by kind and name of the role
        self._built: Counter[tuple[str, str]] = Counter()  # objects without a name, by kind and class
        self._untrained: list[Any] = []
        self._trained: frozenset[str] = (
            frozenset()
        )  # entries that the model trained with before they were applied anew

    def keep(self, plan: Plan) -> None:
        """Add a plan's entries to what is live; an entry of the same name takes the new knobs. All or nothing.

        Raises AccelError for a plan that needs several processes: a notebook is one.
        """
        if plan.group is not None:
            raise AccelError(
                f"%accel keep {plan}", because="it trains on several processes, and a notebook is one",
                do=plan.how_to_run,
            )  # fmt: skip
        if plan.started:
            names = " and ".join(entry.name for entry in plan.started)
            raise AccelError(
                f"%accel keep {plan}", because=f"libraries read {names} as a process starts, and this kernel runs already",
                do=self._how_to_start(plan),
            )  # fmt: skip
        self._replace_by(self.plan.updated(plan))

    def _how_to_start(self, plan: Plan) -> str:
        if missing := plan.missing:
            return missing[0].do
        if not plan.start:
            return f"Restart the kernel, and run this first: {plan.lines}"
        started = Plan(tuple(entry for entry in plan.entries if isinstance(entry, Started)))
        rest = [str(Plan((entry,))) for entry in plan.entries if not isinstance(entry, Started)]
        then = f" There, keep the rest: %accel keep {'+'.join(rest)}." if rest else ""
        then += f" There, after the cells that make the model: {plan.lines}" if plan.lines else ""
        return f"Make a kernel that starts with it: %accel keep {started} --as-kernel NAME.{then}"

    @property
    def has_trained(self) -> bool:
        """Whether parameters moved since the plan was last applied: before that nothing could take effect."""
        return bool(self.plan) and self._first_numbers() != self._untrained

    def _trained_with(self) -> frozenset[str]:
        """Names of the entries that the model has trained with since they were kept."""
        return frozenset(self.plan.names) if self.has_trained else self._trained

    def undo(self, name: str | None = None) -> tuple[str, ...]:
        """Take one entry back, or (by default) everything; says of each what came back, and what stays as trained."""
        if name is not None and name not in self.plan.names:
            kept = str(self.plan) if self.plan else "nothing"
            raise AccelError(
                f"%accel undo {name}", because=f"it is not kept; kept is {kept}", do="See %accel status."
            )
        before, trained = self.plan, self._trained_with()
        self._replace_by(Plan(()) if name is None else self.plan.without(name))
        gone = [entry for entry in before.entries if entry.name not in self.plan.names]
        names: dict[str, list[str]] = {}
        for entry in gone:
            names.setdefault(_after_undo(entry, entry.name in trained), []).append(entry.name)
        return tuple(f"{', '.join(own)}: {said}" for said, own in names.items())

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The notebook as if nothing were kept, for as long as the context lasts.

        What entries put into its objects (a cache that took an epoch to fill) stays alive, for them to find it again.
        """
        kept, trained = self.plan, self._trained_with()
        held = [
            dict(vars(thing))
            for _, _, thing in _things(self.workload.objects())
            if hasattr(thing, "__dict__")
        ]
        try:
            self._replace_by(Plan(()))
            yield
        finally:
            self._replace_by(kept)
            self._trained = trained
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
        return [Replica(), *(replica for replica, _ in self._objects.values())]

    def _replace_by(self, plan: Plan) -> None:
        before, trained = self.plan, self._trained_with()
        with uninterrupted():
            self._unwind()
            repair_patches()
            try:
                self._apply(plan)
            except BaseException:
                self._unwind()
                self._apply(before)
                raise
            finally:
                self._trained = trained & frozenset(self.plan.names)

    def _unwind(self) -> None:
        """Leave every context, the process last; where one of them raises, the others are left all the same."""
        everything = ExitStack()
        for stack in (self._process, *(stack for _, stack in self._objects.values())):
            everything.callback(stack.close)
        self._process, self._objects, self.plan = ExitStack(), {}, Plan(())
        self._built.clear()
        everything.close()

    def _apply(self, plan: Plan) -> None:
        self.plan = plan
        if not plan:
            return
        self._process.enter_context(plan.apply(Replica()))
        things = list(_things(self.workload.objects()))
        for kind, name, thing in things:
            self._apply_to((kind, name), self._single(kind, name, thing))
        self._process.enter_context(Discovery(self._found, known=[thing for _, _, thing in things]))
        self._untrained = self._first_numbers()

    def _first_numbers(self) -> list[Any]:
        """The first number of each parameter: training moves some of them."""
        from torch.nn.parameter import is_lazy

        models = [model for replica, _ in self._objects.values() for model in replica.models.values()]
        known = [
            p.detach() for model in models for p in model.parameters() if not is_lazy(p) and not p.is_meta
        ]
        return [p[(0,) * p.dim()].item() for p in known if p.numel()]

    def _apply_to(self, role: tuple[str, str], replica: Replica) -> None:
        with applying(), uninterrupted():
            if (old := self._objects.pop(role, None)) is not None:
                old[1].close()  # the cell built this object anew: let go of the one before
            stack = ExitStack()
            self._objects[role] = replica, stack
            stack.enter_context(self.plan.apply(replica))

    def _single(self, kind: str, name: str, thing: object) -> Replica:
        whole = self.workload.objects()
        return Replica(**{kind: {name: thing}}, is_process_wide=False, trains_on=whole.device)  # type: ignore[arg-type]

    def _found(self, found: Replica) -> None:
        """An object is used for the first time: is it one of the workload's, built anew?

        Under its own name it takes the place of the one before. Inside a function, or before the name is bound, it is known
        by its class: the same cell, run again, builds the same kinds of objects, and as many.
        """
        for kind, label, thing in _things(found):
            roles = [role for role in self.workload.roles if role.kind == kind]
            named = next((r.name for r in roles if look_up(self.workload.namespace, r.name) is thing), None)
            if named is not None:
                self._apply_to((kind, named), self._single(kind, named, thing))
            elif (role := self._unnamed_role(kind, type(thing).__qualname__, roles)) is not None:
                self._apply_to((kind, self._key(kind, role)), self._single(kind, label, thing))

    def _key(self, kind: str, role: str) -> str:
        """The role, or a place beside it while the object that has its name in the notebook is still in use."""
        present, held = look_up(self.workload.namespace, role), self._objects.get((kind, role))
        if present is None or held is None:
            return role
        return f"{role} anew" if present in held[0].by_kind()[kind].values() else role

    def _unnamed_role(self, kind: str, class_name: str, roles: list[Role]) -> str | None:
        """The role that an object of this class fills: of several alike one after the other, run after run."""
        alike = [role for role in roles if role.class_name == class_name]
        hidden = [role.name for role in alike if look_up(self.workload.namespace, role.name) is None]
        names = hidden or [role.name for role in alike if role.is_built_by_cell]
        if not names:
            return None
        self._built[kind, class_name] += 1
        return names[(self._built[kind, class_name] - 1) % len(names)]


def _after_undo(entry: Acceleration, has_trained: bool) -> str:
    if not has_trained:
        return "everything is as it was, bit for bit"
    usual = "your objects are set up as before; parameters stay as trained with it"
    return str(getattr(entry, "after_undo", usual))


def _things(replica: Replica) -> Iterator[tuple[str, str, object]]:
    for kind, named in replica.by_kind().items():
        for name, thing in named.items():
            yield kind, name, thing


def _identities(workload: Workload) -> set[tuple[str, str, int]]:
    """The objects by kind and name; code is made anew each time it is asked for."""
    return {(kind, name, id(thing)) for kind, name, thing in _things(workload.objects()) if kind != "codes"}
