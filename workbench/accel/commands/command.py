"""What a command is: its name, its help, and its arguments in argparse's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Argument:
    """One positional argument or option of a command, in argparse's terms.

    `completes` says what a word there may be: "plan", "acceleration", "command", "variable", "object" (of the
    training), "loader", "compression", "file", or nothing known.
    """

    flags: tuple[str, ...]
    help: str
    settings: tuple[tuple[str, Any], ...] = ()
    completes: str = ""

    @property
    def is_option(self) -> bool:
        """Whether it starts with a dash."""
        return self.flags[0].startswith("-")

    @property
    def keyword(self) -> str:
        """The name of its value among the parsed options."""
        long = next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])
        return str(dict(self.settings).get("dest", long.lstrip("-").replace("-", "_")))

    @property
    def choices(self) -> tuple[str, ...]:
        """The words allowed, when they are a fixed few."""
        return tuple(dict(self.settings).get("choices", ()))

    @property
    def takes_value(self) -> bool:
        """Whether a word follows the option."""
        return self.is_option and "action" not in dict(self.settings)


@dataclass(frozen=True)
class Command:
    """One command: `accel NAME`, `%accel NAME` and `accel.NAME()`."""

    name: str
    help: str
    example: str
    arguments: tuple[Argument, ...] = ()
    takes_cell: bool = False
    needs_notebook: bool = True

    @property
    def options(self) -> tuple[Argument, ...]:
        """The arguments that start with a dash."""
        return tuple(argument for argument in self.arguments if argument.is_option)

    @property
    def option_words(self) -> tuple[str, ...]:
        """Every spelling of every option, -h included."""
        return tuple(flag for option in (*self.options, HELP) for flag in option.flags)


HELP = Argument(("-h", "--help"), "say what this command does, and do nothing", (("action", "store_true"),))
JSON = Argument(("--json",), "print JSON instead of text", (("action", "store_true"),))
OUT = Argument(
    ("-o", "--out"),
    "put the result into this variable",
    (("metavar", "NAME"), ("default", None)),
    completes="variable",
)

ON = Argument(
    ("--on",),
    "act on these objects of the cell alone, as in --on generator,optimizer_g (default: all)",
    (("metavar", "NAME"), ("default", None)),
    completes="object",
)


def switch(flag: str, meaning: str) -> Argument:
    """An option without a value."""
    return Argument((flag,), meaning, (("action", "store_true"),))


def seconds(flag: str, default: float | None, meaning: str) -> Argument:
    """An option that takes a number of seconds."""
    return Argument((flag,), meaning, (("metavar", "SECONDS"), ("type", float), ("default", default)))


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
