"""A table of the course with the student's own figures in the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, UnknownName
from accel.shown import Shown

if TYPE_CHECKING:
    import pandas

    from accel.labs.course.chapter import TableForm

Value = str | float | None


@dataclass(frozen=True)
class ReferenceTable(Shown):
    """Rows of the course's figures and of the student's; None where nothing was measured.

    Examples:
        >>> accel.lab(6).table("sparsity", {"50 %": (9.1, 0.90)}).to_dataframe()
    """

    title: str
    conditions: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "title": self.title, "conditions": self.conditions, "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
        }  # fmt: skip

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a row."""
        import pandas

        return pandas.DataFrame(self.rows, columns=list(self.columns))


def with_yours(form: TableForm, yours: Mapping[str | float, Value | tuple[Value, ...]]) -> ReferenceTable:
    """The course's table with the columns that a student's machine fills; raises for a row or a column that it has not."""
    names = [str(row[0]) for row in form.rows]
    given = {str(name): value if isinstance(value, tuple) else (value,) for name, value in yours.items()}
    for name, values in given.items():
        if name not in names:
            raise UnknownName("row", name, names)
        if len(values) != len(form.yours):
            raise AccelError(
                f"The row {name} of {form.id}",
                because=f"{len(values)} figures were given for {len(form.yours)} columns",
                do=f"Give {', '.join(form.yours) or 'none: the table is the course’s alone'}.",
            )
    shown = form.yours if given else ()
    empty: tuple[Value, ...] = (None,) * len(shown)
    rows = tuple((*row, *given.get(str(row[0]), empty)) for row in form.rows)
    return ReferenceTable(form.title, form.conditions, (*form.columns, *shown), rows)
