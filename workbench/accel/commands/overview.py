"""What `%accel` alone shows: the present state, and what can be done next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.commands.help import Help
from accel.commands.table import help_on
from accel.shown import Shown

if TYPE_CHECKING:
    from accel.workbench import Workbench
    from accel.workbench.status import Status


@dataclass(frozen=True)
class Overview(Shown):
    """The status of a workbench, and help under it."""

    status: Status
    help: Help

    @classmethod
    def of(cls, workbench: Workbench) -> Overview:
        """As it is now."""
        return cls(workbench.status(), help_on())

    def to_dict(self) -> dict[str, Any]:
        """Status and help as plain values."""
        return {"status": self.status.to_dict(), "help": self.help.to_dict()}
