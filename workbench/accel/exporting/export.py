"""The user's cell with the kept accelerations written in as plain PyTorch: what `%accel export --to cell` gives."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_rewriter import Note, rewrite
from accel.exporting.saving import save_new
from accel.shown import Shown

if TYPE_CHECKING:
    from accel.plans.plan import Plan
    from accel.workload.workload import Workload


@dataclass(frozen=True)
class Export(Shown):
    """A cell as plain PyTorch. Running `code` gives the losses that the live plan gives; it does not need accel.

    >>> print(export)             # the code; where something could not be written in, why, and what to do by hand
    >>> print(export.diff)        # what changed
    >>> export.save("train.py")
    """

    cell: str
    code: str
    plan: str
    notes: tuple[Note, ...] = ()

    @property
    def diff(self) -> str:
        """A unified diff from the cell to the code; empty when nothing changed."""
        lines = difflib.unified_diff(
            self.cell.splitlines(), self.code.splitlines(), "cell", f"cell with {self.plan}", lineterm=""
        )
        return "\n".join(lines)

    @property
    def is_complete(self) -> bool:
        """Whether all of the plan is in the code."""
        return not self.notes

    def save(self, path: str | Path) -> Path:
        """Write the code, and notes as comments at its end, to a new file; an existing one is never overwritten."""
        return save_new(path, self.code_with_notes + "\n")

    @property
    def code_with_notes(self) -> str:
        """The code, with the notes as comments at its end."""
        code = self.code.removesuffix("\n")
        comments = [f"# {line}".rstrip() for one in self.notes for line in str(one).splitlines()]
        return "\n".join([code, "", *comments] if comments else [code])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "cell": self.cell,
            "code": self.code,
            "diff": self.diff,
            "plan": self.plan,
            "notes": [
                {"acceleration": n.acceleration, "reason": n.reason, "lines": n.lines} for n in self.notes
            ],
        }


def export_cell(workload: Workload, plan: Plan) -> Export:
    """The workload's cell with the plan written in.

    >>> export_cell(workload, Plan.parse("channels_last+fused_optimizer")).diff

    What cannot be written in is in `notes`, with its lines. Raises AccelError for a cell that does not parse.
    """
    code, notes = rewrite(workload, plan)
    return Export(cell=workload.cell, code=code, plan=str(plan), notes=notes)
