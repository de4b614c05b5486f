"""`%accel help`, and its result."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.commands.command import Argument, Command, named
from accel.commands.line.parser import help_of, help_of_all
from accel.shown import Shown

if TYPE_CHECKING:
    from accel.commands.place import Place


@dataclass(frozen=True)
class Help(Shown):
    """What all commands do, or how one is used.

    >>> print(accel.help("try"))
    """

    topic: str | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The topic and its text."""
        return {"topic": self.topic, "text": self.text}


def explained(commands: Sequence[Command], topic: str | None = None, *, program: str = "%accel") -> Help:
    """The help on one of these commands, or on all; raises UnknownName, with the nearest right word."""
    if topic is None:
        return Help(None, help_of_all(commands, program=program))
    return Help(topic, help_of(named(commands, topic), program=program))


def command_that_explains(commands: Callable[[], Sequence[Command]]) -> Command:
    """The command `help`, which explains all, itself among them."""

    def run(options: argparse.Namespace, place: Place) -> object:
        return explained(commands(), options.topic, program=place.program)

    return Command(
        "help",
        "explain all commands, or one",
        "%accel help try",
        run,
        (
            Argument(
                "topic", help="the command to explain", metavar="COMMAND", nargs="?", completes="command"
            ),
        ),
        needs_notebook=False,
    )
