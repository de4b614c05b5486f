"""Help as a result: text in a terminal, the same text in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel import html_parts
from accel.commands.parsing import help_text


@dataclass(frozen=True)
class Help:
    """What all commands do, or how one is used.

    >>> print(Help("try"))
    """

    topic: str | None = None
    program: str = "%accel"

    def __str__(self) -> str:
        return help_text(self.topic, program=self.program)

    def to_dict(self) -> dict[str, Any]:
        """The topic and its text."""
        return {"topic": self.topic, "text": str(self)}

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        lines = html_parts.Markup(f'<pre style="margin:0">{html_parts.text(self)}</pre>')
        return {"text/plain": str(self), "text/html": html_parts.block(lines)}
