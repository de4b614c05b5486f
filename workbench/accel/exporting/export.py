"""The user's cell with the kept accelerations written in as plain PyTorch: what `%accel export --to cell` gives."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.exporting.cell_rewriter import Note, rewrite
from accel.html_parts import Markup, block, heading, note, text

if TYPE_CHECKING:
    from accel.plans.plan import Plan
    from accel.workload.workload import Workload

_LINE_STYLES = {
    "+": "background-color:rgba(22,163,74,.18);font-weight:600",
    "-": "background-color:rgba(220,38,38,.16);text-decoration:line-through;text-decoration-color:rgba(220,38,38,.5)",
    " ": "",
}


@dataclass(frozen=True)
class Export:
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
            _lines(self.cell), _lines(self.code), "cell", f"cell with {self.plan}", lineterm=""
        )
        return "\n".join(lines)

    @property
    def is_complete(self) -> bool:
        """Whether all of the plan is in the code."""
        return not self.notes

    def save(self, path: str | Path) -> Path:
        """Write the code, and notes as comments at its end, to a new file; an existing one is never overwritten."""
        path = Path(path).expanduser()
        try:
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(str(self) + "\n")
        except FileExistsError:
            because, do = "a file of that name is there already", "Give another name, or remove it first."
            raise AccelError(f"save {path}", because=because, do=do) from None
        except OSError as error:
            because = error.strerror or str(error)
            raise AccelError(
                f"save {path}", because=because, do="Give a path in a folder that you can write to."
            ) from error
        return path

    def __str__(self) -> str:
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

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": str(self._html())}

    def _html(self) -> Markup:
        """The whole cell as a diff: `+` and `-` in front of changed lines, a tint behind them."""
        marked = Markup("".join(_html_line(mark, line) for mark, line in self._marked_lines()))
        pre = Markup(
            '<pre style="font-family:var(--jp-code-font-family,monospace);font-size:12.5px;line-height:1.45;margin:0;'
            f'overflow-x:auto">{marked}</pre>'
        )
        missing = [
            Markup(f'<pre style="margin:2px 0 6px 0;font-size:12.5px">{text(one)}</pre>')
            for one in self.notes
        ]
        by_hand = [heading("Not written in"), *missing] if missing else []
        return block(
            heading(f"Your cell with {self.plan}, in plain PyTorch"), pre, *by_hand,
            note("Lines with + are new, lines with - are gone. It runs as it stands, without accel."),
        )  # fmt: skip

    def _marked_lines(self) -> list[tuple[str, str]]:
        compared = difflib.ndiff(_lines(self.cell), _lines(self.code))
        return [(line[0], line[2:]) for line in compared if line[0] in _LINE_STYLES]


def export_cell(workload: Workload, plan: Plan) -> Export:
    """The workload's cell with the plan written in.

    >>> export_cell(workload, Plan.parse("channels_last+fused_optimizer")).diff

    What cannot be written in is in `notes`, with its lines. Raises AccelError for a cell that does not parse.
    """
    code, notes = rewrite(workload, plan)
    return Export(cell=workload.cell, code=code, plan=str(plan), notes=notes)


def _lines(code: str) -> list[str]:
    return code.splitlines()


def _html_line(mark: str, line: str) -> Markup:
    style = _LINE_STYLES[mark]
    return Markup(f'<span style="display:block;{style}">{mark} {text(line)}</span>')
