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
from accel.exporting.placement import after_building, after_header, after_loading, before_first_use
from accel.exporting.plain_code import (
    as_code_for,
    imported_names,
    names_known_at,
    reads_torch,
    statements,
    title,
    without_known_imports,
)
from accel.plans.chosen import kinds_changed
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
        self.edits = Edits(self.tree)
        self.in_place = InPlace(self.tree, self.edits, workload, plan)
        self.notes: list[Note] = []
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
            code = as_code_for(entry, self.workload, []) if short is None else short
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
        self._import_torch_if_needed()
        for (place, side), additions in self._additions.items():
            known = names_known_at(self.tree, place, self.workload.namespace) | {"torch"}
            put = self.edits.after if side == "after" else self.edits.before
            for number, code in enumerate(additions):
                put(place, statements(without_known_imports(code, known), is_apart=number > 0))
                known |= imported_names(code)
        return self.edits.made(), tuple(self.notes)

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
                self._add(entry, short, self._first_use)
        if general:
            code = as_code_for(entry, self.workload, [*general, *self._state_beside(entry)])
            self._add(entry, code, self._first_use)

    def _state_beside(self, entry: Acceleration) -> list[Role]:
        """Optimizers whose state a change of the weights concerns; their layout fused_optimizer sees to itself."""
        is_layout_only = isinstance(entry, ChannelsLast)
        if entry.layer != "model" or (is_layout_only and FusedOptimizer.name in self._plan.names):
            return []
        seen = self._plan.seen_by(entry, self.workload).roles
        roles = [role for role in seen if role.kind == "optimizers" and not role.is_built_by_cell]
        return [role for role in roles if look_up(self.workload.namespace, role.name) is not None]

    def _write_for_built(self, entry: Acceleration, role: Role) -> None:
        places = after_building(self.tree, _root(role.name))
        if not places:
            reason = "no line of the cell builds it under that name. Put these lines after the one that does:"
            self._cannot(entry, role, reason)
            return
        loading = after_loading(self.tree, role.name) if role.kind == "optimizers" else []
        short = self.in_place.built(entry, role, places) if not loading else None
        if short != "":
            code = as_code_for(entry, self.workload, [role]) if short is None else short
            for place in [*places, *loading]:
                self._add(entry, code, place, "after")

    def _add(self, entry: Acceleration, code: str, place: cst.CSTNode | None, side: Side = "before") -> None:
        if place is None:
            reason = "the cell only imports and defines. Run these lines before training starts:"
            self.notes.append(Note(entry.name, reason, code))
        else:
            additions = self._additions.setdefault((place, side), [])
            heading = f"# {title(entry)}\n"
            says_so_already = bool(additions) and additions[-1].startswith(heading)
            additions.append(code if says_so_already else heading + code)

    def _cannot(self, entry: Acceleration, role: Role, reason: str) -> None:
        lines = as_code_for(entry, self.workload, [role])
        self.notes.append(Note(entry.name, f"the cell uses {role.name}, but {reason}", lines))

    def _import_torch_if_needed(self) -> None:
        """`import torch` above everything, when a written line says torch and neither cell nor notebook has it yet."""
        import libcst as cst

        top = after_header(self.tree)
        needed = self.in_place.says_torch or any(
            reads_torch(code) for additions in self._additions.values() for code in additions
        )
        if needed and top and "torch" not in names_known_at(self.tree, top, self.workload.namespace):
            self.edits.before(top, [cst.parse_statement("import torch\n")])


def _root(name: str) -> str:
    return name.partition(".")[0]
