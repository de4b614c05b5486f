"""What a command is: its name, its help, its arguments in argparse's terms, and what it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.commands.line.result_name import check_result_name

if TYPE_CHECKING:
    from accel.commands.place import Place


class Argument:
    """One positional argument or option of a command, in argparse's terms.

    >>> from accel.bounds import check_steps
    >>> Argument("--steps", help="how many steps to look into", metavar="N", type=int, default=5, check=check_steps)

    Args:
        flags: Its spellings; a positional argument has one without dashes.
        help: What it means, in a line.
        completes: What a word there may be: "plan", "acceleration", "command", "variable", "object" (of the training),
            "loader", "cluster", "backend", "compression", "file"; empty: nothing is known.
        check: Called with the option as it was written and its value, unless that is None; raises AccelError.
        settings: What else `argparse` is given.
    """

    def __init__(
        self, *flags: str, help: str, completes: str = "", check: Callable[[str, Any], object] | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        self.flags, self.help, self.completes, self.check, self.settings = (
            flags,
            help,
            completes,
            check,
            settings,
        )

    @property
    def is_option(self) -> bool:
        """Whether it starts with a dash."""
        return self.flags[0].startswith("-")

    @property
    def keyword(self) -> str:
        """The name of its value among the parsed options."""
        long = next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])
        return str(self.settings.get("dest", long.lstrip("-").replace("-", "_")))

    @property
    def choices(self) -> tuple[str, ...]:
        """The words allowed, when they are a fixed few."""
        return tuple(self.settings.get("choices", ()))

    @property
    def takes_value(self) -> bool:
        """Whether a word follows the option."""
        return self.is_option and "action" not in self.settings


@dataclass(frozen=True)
class Command:
    """One command: `accel NAME`, `%accel NAME` and `accel.FUNCTION()`, which `in_python` names where it is not NAME.

    `run` gives its result; `check` refuses what no argument alone can; `show` gives what a notebook's page shows of a
    result, where that is not the result itself.
    """

    name: str
    help: str
    example: str
    run: Callable[[argparse.Namespace, Place], object]
    arguments: tuple[Argument, ...] = ()
    check: Callable[[argparse.Namespace, str], None] | None = None
    show: Callable[[Any, argparse.Namespace], object] | None = None
    takes_cell: bool = False
    needs_notebook: bool = True
    beats: bool = True  # else nothing is said each second: it draws or serves until it is ended
    in_python: str = ""

    @property
    def function(self) -> str:
        """The name of its function in `accel`."""
        return self.in_python or self.name

    @property
    def options(self) -> tuple[Argument, ...]:
        """The arguments that start with a dash."""
        return tuple(argument for argument in self.arguments if argument.is_option)


HELP = Argument("-h", "--help", help="say what this command does, and do nothing", action="store_true")
JSON = Argument("--json", help="print JSON instead of text", action="store_true")
OUT = Argument(
    "-o", "--out", help="put the result into this variable", metavar="NAME", default=None, completes="variable",
    check=lambda _, name: check_result_name(name, {}),
)  # fmt: skip
FULL = Argument(
    "--full",
    help="show all of it at once: the whole text, and nothing of the page folded",
    action="store_true",
)
ON = Argument(
    "--on",
    help="act on these objects of the cell alone, as in --on generator,optimizer_g (default: all)",
    metavar="NAME",
    default=None,
    completes="object",
)


def switch(flag: str, meaning: str) -> Argument:
    """An option without a value."""
    return Argument(flag, help=meaning, action="store_true")


def duration(text: str) -> float:
    """A number of seconds, with or without its unit.

    >>> duration("60s")
    60.0
    """
    return float(text.removesuffix("s"))


def names(text: str) -> tuple[str, ...]:
    """Names apart by commas.

    >>> names("train_loader, other")
    ('train_loader', 'other')
    """
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def named(commands: Iterable[Command], name: str) -> Command:
    """The one of that name; raises UnknownName with the nearest right word, or what serves in place of a tool of others."""
    from accel.errors import UnknownName
    from accel.techniques.source.other_tools import instead_of

    known = {command.name: command for command in commands}
    if name not in known:
        raise UnknownName("command", name, known, instead=instead_of(name))
    return known[name]
