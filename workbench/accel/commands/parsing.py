"""Turn a line such as `try channels_last -o result` into Python keywords, or say what is wrong with it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from accel.bounds import check_ranks, check_seconds, check_steps
from accel.commands.command import HELP, JSON, OUT, Argument, Command
from accel.commands.result_name import check_result_name
from accel.commands.table import COMMANDS, command_named
from accel.errors import AccelError, UnknownName
from accel.measuring.quality_target import QualityTarget
from accel.shown_text import one_line

LONGEST_WORDS = 300
OPENING, CLOSING, QUOTES = "([{", ")]}", "\"'"


def parse(line: str | Sequence[str], *, program: str = "%accel") -> argparse.Namespace:
    """The command of a line, and its options by their Python keyword names.

    >>> parse("try channels_last --timeout-s 30")
    Namespace(command='try', plans=['channels_last'], wait=True, budget_s=None, timeout_s=30.0, out=None, help=False)

    An empty line is the command "". An unknown command or option raises UnknownName with the nearest right word.
    """
    words = split_words(line) if isinstance(line, str) else list(line)
    if not words:
        return argparse.Namespace(command="", out=None, help=False)
    if words[0] in HELP.flags:
        return argparse.Namespace(command="help", topic=None, out=None, help=False, json=False)
    command = command_named(words[0])
    parser = parser_of(command, program=program)
    if not all(map(_can_be_a_path, words)):
        parser.error("it holds a character that is in no name, number or path")
    options, strange = parser.parse_known_intermixed_args(words[1:])
    for option in command.options:  # argparse makes an empty list of "--" where a value belongs
        if option.takes_value and getattr(options, option.keyword, None) == []:
            parser.error(f"argument {option.flags[0]}: expected one argument")
    if strange:
        _reject(strange[0], command, program)
    options.command = command.name
    if not options.help:
        _check(options, program)
    return options


def _can_be_a_path(word: str) -> bool:
    """Without NUL characters and lone halves of letters, at which calls to the system raise."""
    return "\0" not in word and word == word.encode("utf-8", "ignore").decode()


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
    for argument in _arguments(command, program):
        parser.add_argument(*argument.flags, help=argument.help.replace("%", "%%"), **dict(argument.settings))
    return parser


def _arguments(command: Command, program: str) -> list[Argument]:
    """Those that it takes there: a shell has no variables to put a result into, and can take JSON."""
    if program != "accel":
        return [*command.arguments, HELP]
    return [*(argument for argument in command.arguments if argument is not OUT), JSON, HELP]


class _Parser(argparse.ArgumentParser):
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise UnknownName(f"value of {action.option_strings[-1]}", str(value), map(str, action.choices))

    def error(self, message: str) -> NoReturn:
        words = one_line(message[:1].lower() + message[1:], LONGEST_WORDS)
        raise AccelError(self.prog, because=words, do=f"{self.prog} -h explains it.")


def split_words(line: str) -> list[str]:
    """Split at spaces outside of quotes and brackets: a plan with knobs is one word, and so are plans around a +.

    >>> split_words('try autocast(dtype="bf16", x=1) + channels_last')
    ['try', 'autocast(dtype="bf16", x=1)+channels_last']
    """
    words, word, depth, quote = [], "", 0, ""
    for letter in line:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in OPENING:
            depth += 1
        elif letter in CLOSING:
            depth = max(0, depth - 1)
        elif letter.isspace() and not depth:
            words.append(word)
            word = ""
            continue
        word += letter
    return _join_sums([_unquoted(part) for part in (*words, word) if part])


def _unquoted(word: str) -> str:
    """'channels_last' in quotes of its own loses them; quotes inside a plan stay."""
    is_quoted = len(word) >= 2 and word[0] in QUOTES and word[-1] == word[0] and word[0] not in word[1:-1]
    return word[1:-1] if is_quoted else word


def _join_sums(words: list[str]) -> list[str]:
    joined: list[str] = []
    for word in words:
        if joined and (word.startswith("+") or joined[-1].endswith("+")):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _reject(word: str, command: Command, program: str) -> NoReturn:
    option = word.split("=")[0]
    if program == "accel" and option in OUT.flags:
        raise AccelError(
            f"{program} {command.name} {option}",
            because="there is no variable to put the result into outside of a notebook",
            do=f"Write it to a file: {program} {command.name} --json > {command.name}.json.",
        )
    if word.startswith("-"):
        known = [argument for argument in _arguments(command, program) if argument.is_option]
        raise UnknownName("option", option, [flag for argument in known for flag in argument.flags])
    raise AccelError(
        f"{program} {command.name} {word}",
        because=f"{word!r} is one word too many",
        do=f"{program} {command.name} -h explains it.",
    )


def _check(options: argparse.Namespace, program: str) -> None:
    """What argparse cannot check."""
    if (name := getattr(options, "out", None)) is not None:
        check_result_name(name, {})
    if options.command == "profile":
        check_steps(f"--steps {options.steps}", options.steps)
    if options.command == "try":
        check_seconds(f"--budget-s {options.budget_s}", options.budget_s)
        check_seconds(f"--timeout-s {options.timeout_s}", options.timeout_s)
        check_seconds(f"--train-s {options.train_s}", options.train_s)
        if options.until is not None:
            QualityTarget.parse(options.until)
    if options.command == "ddp":
        check_ranks(f"-n {options.n}", options.n)
        check_seconds(f"--timeout {options.timeout_s}", options.timeout_s)
    if options.command == "monitor":
        check_seconds(f"--every {options.every}", options.every)
        check_seconds(f"--seconds {options.seconds}", options.seconds)
    if options.command == "open" and not options.files:
        raise AccelError(
            f"{program} open",
            because="no file is named",
            do=f"Name a trace, as in {program} open trace.json.gz, or a folder with one trace a rank.",
        )
    if options.command == "try" and not options.plans:
        raise AccelError(
            f"{program} try",
            because="no plan is named",
            do=f"Name one, as in {program} try channels_last; {program} accelerations lists them.",
        )


def help_text(command: str | None = None, *, program: str = "%accel") -> str:
    """What all commands do, one a line; or one command with its options and an example.

    >>> print(help_text("try"))
    usage: %accel try [--background] ...
    """
    if command is not None:
        return parser_of(command_named(command), program=program).format_help().rstrip()
    width = max(len(known.name) for known in COMMANDS)
    lines = [f"  {known.name:<{width}}  {known.help}" for known in COMMANDS]
    return "\n".join(
        [
            "accel takes a slow training cell to a fast one: profile, try, keep, export.",
            "",
            *lines,
            "",
            f"{program} help COMMAND explains one; each is also a function, as in accel.machine() or accel.try_(...).",
        ]
    )
