"""What `%accel` alone shows: the present state, and what can be done next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel import html_parts
from accel.commands import help_on
from accel.commands.help import Help

if TYPE_CHECKING:
    from accel.workbench import Workbench
    from accel.workbench.status import Status


@dataclass(frozen=True)
class Overview:
    """The status of a workbench, and help under it."""

    status: Status
    help: Help

    @classmethod
    def of(cls, workbench: Workbench) -> Overview:
        """As it is now."""
        return cls(workbench.status(), help_on())

    def __str__(self) -> str:
        return f"{self.status}\n\n{self.help}"

    def to_dict(self) -> dict[str, Any]:
        """Status and help as plain values."""
        return {"status": self.status.to_dict(), "help": self.help.to_dict()}

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        shown = self.status._repr_mimebundle_()
        above = html_parts.Markup(shown["text/html"])
        below = html_parts.Markup(self.help._repr_mimebundle_()["text/html"])
        return {
            "text/plain": str(self),
            "text/html": html_parts.block(above, html_parts.heading("Commands"), below),
        }
