"""Write accelerations into a cell as plain PyTorch: where it shows the code, else in front of what they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from accel.accelerations.async_metrics import AsyncMetrics, cell_without_waits
from accel.accelerations.channels_last import ChannelsLast
from accel.accelerations.ddp import Ddp
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.exporting.cell_tree import CellTree
from accel.exporting.edits import Edits
from accel.exporting.in_place import InPlace
from accel.exporting.magic_lines import without_accel_line
from accel.exporting.placement import (
    after_building,
    after_header,
    after_loading,
    before_first_use,
    is_in_time,
)
from accel.exporting.plain_code import (
    as_code_for,
    imported_names,
    is_torch_known,
    is_torch_local,
    reads_torch,
    statements,
    title,
    without_known_imports,
)
from accel.exporting.private_names import PrivateNames
from accel.plans.chosen import kinds_changed
from accel.units import counted
from accel.workload.workload import look_up

if TYPE_CHECKING:
    import libcst as cst

    from accel.accelerations.acceleration import Acceleration
    from accel.plans.plan import Plan
    from accel.workload.workload import Role, Workload

Side = Literal["before", "after"]


@dataclass(frozen=True)
class Note:
    """Something that could not be written in: for which acceleration, why, and the lines to put in by hand."""

    acceleration: str
    reason: str
    lines: str

    def __str__(self) -> str:
        indented = "".join(f"\n    {line}".rstrip(" ") for line in self.lines.splitlines())
        return f"{self.acceleration} is not written in: {self.reason}{indented}"


def rewrite(workload: Workload, plan: Plan) -> tuple[str, tuple[Note, ...]]:
    """The cell with a plan written in, and what could not be; raises AccelError for a cell that does not parse.

    >>> code, notes = rewrite(workload, Plan.parse("fused_optimizer"))
    """
    rewriter = CellRewriter(workload, plan)
    for entry in plan.entries:
        rewriter.write(entry)
    return rewriter.finished()


class CellRewriter:
    """Collects where each entry's lines go, entry by entry in plan order; then makes all edits at once."""

    def __init__(self, workload: Workload, plan: Plan) -> None:
        self.workload, self._plan = workload, plan
        waits = AsyncMetrics.name not in plan.names
        cell = workload.cell if waits else cell_without_waits(workload) or workload.cell
        self.tree = CellTree.parse(without_accel_line(cell))
        is_typed = cell is workload.cell
        self.typed = self.tree if is_typed else CellTree.parse(without_accel_line(workload.cell))
        self.edits = Edits(self.tree)
        self._names = PrivateNames(self.tree, workload.namespace)
        self.in_place = InPlace(self.tree, self.edits, workload, plan, has_torch=self._names.has_torch)
        self.notes: list[Note] = []
        self._explained: set[tuple[str, ...]] = (
            set()
        )  # keys of the notes written: unnamed objects of one class share a note
        self._additions: dict[tuple[cst.CSTNode, Side], list[str]] = {}
        existing = [role for role in workload.roles if not role.is_built_by_cell]
        self._first_use = before_first_use(
            self.tree,
            {_root(role.name) for role in existing},
            [found for role in existing if (found := role.current(workload.namespace)) is not None],
            workload.namespace,
        )

    def write(self, entry: Acceleration) -> None:
        """Write one entry in, for every object it changes."""
        kinds = ("models", "loaders") if isinstance(entry, Ddp) else kinds_changed(entry)
        if not kinds:
            short = self.in_place.of_process(entry)
            code = self._code(entry, []) if short is None else self._names.used_in(short, self._functions)
            if code:
                self._add(entry, code, after_header(self.tree))
            return
        roles = [role for role in self._plan.seen_by(entry, self.workload).roles if role.kind in kinds]
        if not roles:
            self.notes.append(Note(entry.name, f"the cell was not seen to use any {' or '.join(kinds)}.", ""))
        self._write_for_existing(entry, [role for role in roles if not role.is_built_by_cell])
        for role in roles:
            if role.is_built_by_cell:
                self._write_for_built(entry, role)

    def finished(self) -> tuple[str, tuple[Note, ...]]:
        """The code and the notes."""
        top = after_header(self.tree)
        self._import_torch_if_needed(top)
        for (place, side), additions in self._additions.items():
            is_known = top is not None or is_torch_known(self.tree, place, self.workload.namespace)
            known = {"torch"} if is_known and not is_torch_local(self.tree, place) else set()
            put = self.edits.after if side == "after" else self.edits.before
            for number, code in enumerate(additions):
                put(place, statements(without_known_imports(code, known), is_apart=number > 0))
                known |= imported_names(code)
        return self.edits.made(), tuple(self.notes)

    @property
    def _functions(self) -> set[str]:
        """The user's functions and classes that an entry may define anew."""
        return {_root(code.name) for code in self.workload.objects().codes.values()}

    def _code(self, entry: Acceleration, roles: Sequence[Role]) -> str:
        """The entry's lines for these objects, with names of their own; empty where they would do nothing."""
        if isinstance(entry, Ddp):  # its lines bind the user's own names anew
            return as_code_for(entry, self.workload, roles)
        if isinstance(entry, AsyncMetrics):
            return self._names.used_in(as_code_for(entry, self.workload, roles), self._functions)
        return self._names.code_for(entry, self.workload, roles)

    def _write_for_existing(self, entry: Acceleration, roles: Sequence[Role]) -> None:
        named = [role for role in roles if look_up(self.workload.namespace, role.name) is not None]
        for role in roles:
            if role not in named:
                self._cannot(
                    entry, role, "it has no name in the notebook. Put these lines where you can name it:"
                )
        general = []
        for role in named:
            short = self.in_place.existing(entry, role)
            if short is None:
                general.append(role)
            elif short:
                self._add(entry, self._names.used_in(short), self._first_use)
        if general:
            code = self._code(entry, [*general, *self._state_beside(entry)])
            self._add(entry, code, self._first_use)
        for role in general:
            for place in after_loading(self.tree, role.name) if role.kind == "optimizers" else ():
                self._add(entry, self._code(entry, [role]), place, "after")

    def _state_beside(self, entry: Acceleration) -> list[Role]:
        """Optimizers whose state a change of the weights concerns; their layout fused_optimizer sees to itself."""
        is_layout_only = isinstance(entry, ChannelsLast)
        if entry.layer != "model" or (is_layout_only and FusedOptimizer.name in self._plan.names):
            return []
        seen = self._plan.seen_by(entry, self.workload).roles
        roles = [role for role in seen if role.kind == "optimizers" and not role.is_built_by_cell]
        return [role for role in roles if look_up(self.workload.namespace, role.name) is not None]

    def _write_for_built(self, entry: Acceleration, role: Role) -> None:
        places = after_building(self.tree, role.name)
        if not places:
            reason = "no line of the cell builds it under that name. Put these lines after the line that builds the object:"
            self._cannot(entry, role, reason)
            return
        if not any(is_in_time(self.typed, place, role) for place in after_building(self.typed, role.name)):
            line = _first_line(self.workload.source, (role.built_on or role.used_on)[-1])
            reason = f"code that `{line}` calls builds it. Put these lines into that code, after the line that builds it:"
            self._cannot(entry, role, reason)
            return
        loading = after_loading(self.tree, role.name) if role.kind == "optimizers" else []
        short = self.in_place.built(entry, role, places) if not loading else None
        if short != "":
            code = self._code(entry, [role]) if short is None else self._names.used_in(short)
            for place in [*places, *loading]:
                self._add(entry, code, place, "after")

    def _add(self, entry: Acceleration, code: str, place: cst.CSTNode | None, side: Side = "before") -> None:
        if not code:
            self.notes.append(Note(entry.name, "its lines would do nothing in this cell.", ""))
        elif place is None:
            reason = "the cell only imports and defines. Run these lines before training starts:"
            self.notes.append(Note(entry.name, reason, code))
        else:
            additions = self._additions.setdefault((place, side), [])
            heading = f"# {title(entry)}\n"
            says_so_already = bool(additions) and additions[-1].startswith(heading)
            additions.append(code if says_so_already else heading + code)

    def _cannot(self, entry: Acceleration, role: Role, reason: str) -> None:
        what, lines = role.name, self._code(entry, [role])
        if role.is_label:
            key = (entry.name, role.kind, role.class_name, reason)
            if key in self._explained:
                return
            self._explained.add(key)
            labels = [each for each in self.workload.roles if each.is_label]
            same = sum((each.kind, each.class_name) == (role.kind, role.class_name) for each in labels)
            what += f" (accel's placeholder for {counted(same, f'{role.class_name} object')} without a variable name)"
            reason = f"{reason.removesuffix(':')}, and replace {role.name} with the name that your code uses there:"
        self.notes.append(Note(entry.name, f"the cell uses {what}, but {reason}", lines))

    def _import_torch_if_needed(self, top: cst.CSTNode | None) -> None:
        """`import torch` above everything, when a written line says torch and neither cell nor notebook has it yet."""
        import libcst as cst

        needed = self.in_place.says_torch or any(
            reads_torch(code) for additions in self._additions.values() for code in additions
        )
        if needed and top and not is_torch_known(self.tree, top, self.workload.namespace):
            self.edits.before(top, [cst.parse_statement("import torch\n")])


def _first_line(source: str, line: int) -> str:
    return "".join(source.splitlines()[line - 1 : line]).strip()


def _root(name: str) -> str:
    return name.partition(".")[0]
