"""A command as argparse knows it: its parser, and the help that this writes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, NoReturn

from accel.commands.command import FULL, HELP, JSON, OUT, Argument, Command
from accel.errors import AccelError, UnknownName
from accel.shown_text import one_line

LONGEST_WORDS = 300


def parser_of(command: Command, *, program: str = "%accel") -> argparse.ArgumentParser:
    """The argparse parser of one command; it raises AccelError and never exits."""
    prefix = "%%accel" if program == "%accel" and command.example.startswith("%%") else program
    parser = _Parser(
        prog=f"{prefix} {command.name}",
        description=f"{command.help[0].upper()}{command.help[1:]}.",
        epilog=f"example:  {command.example}",
        add_help=False,
        allow_abbrev=False,
    )
    for argument in arguments_of(command, program):
        parser.add_argument(*argument.flags, help=argument.help.replace("%", "%%"), **argument.settings)
    return parser


def arguments_of(command: Command, program: str) -> list[Argument]:
    """Those that it takes there: a shell has no variables to put a result into, shows all of it, and can take JSON."""
    if program != "accel":
        return [*command.arguments, HELP]
    return [*(argument for argument in command.arguments if argument not in (OUT, FULL)), JSON, HELP]


class _Parser(argparse.ArgumentParser):
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = (
                f"value of {action.option_strings[-1]}" if action.option_strings else f"word of {self.prog}"
            )
            raise UnknownName(what, str(value), map(str, action.choices))

    def error(self, message: str) -> NoReturn:
        words = one_line(message[:1].lower() + message[1:], LONGEST_WORDS)
        raise AccelError(self.prog, because=words, do=f"{self.prog} -h explains it.")


def help_of(command: Command, *, program: str = "%accel") -> str:
    """One command with its options and an example.

    >>> print(help_of(command_named("try")))
    usage: %accel try [--background] ...
    """
    return parser_of(command, program=program).format_help().rstrip()


def help_of_all(commands: Iterable[Command], *, program: str = "%accel") -> str:
    """What all commands do, one a line."""
    known = list(commands)
    width = max(len(each.name) for each in known)
    lines = [f"  {each.name:<{width}}  {each.help}" for each in known]
    return "\n".join(
        [
            "accel takes a slow training cell to a fast one: profile, try, keep, export.",
            "",
            *lines,
            "",
            f"{program} help COMMAND explains one; each is also a function, as in accel.machine() or accel.try_(...).",
        ]
    )
