"""Turn a line such as `try channels_last -o result` into Python keywords, or say what is wrong with it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from accel.commands.command import HELP, OUT, Command
from accel.commands.line.parser import arguments_of, parser_of
from accel.commands.table import command_named
from accel.errors import AccelError, UnknownName

OPENING, CLOSING, QUOTES = "([{", ")]}", "\"'"


def parse(line: str | Sequence[str], *, program: str = "%accel") -> argparse.Namespace:
    """The command of a line, and its options by their Python keyword names.

    >>> options = parse("try channels_last --timeout-s 30")
    >>> options.command, options.plans, options.timeout_s
    ('try', ['channels_last'], 30.0)

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
        _check(options, command, program)
    return options


def _can_be_a_path(word: str) -> bool:
    """Without NUL characters and lone halves of letters, at which calls to the system raise."""
    return "\0" not in word and word == word.encode("utf-8", "ignore").decode()


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
        known = [argument for argument in arguments_of(command, program) if argument.is_option]
        raise UnknownName("option", option, [flag for argument in known for flag in argument.flags])
    raise AccelError(
        f"{program} {command.name} {word}",
        because=f"{word!r} is one word too many",
        do=f"{program} {command.name} -h explains it.",
    )


def _check(options: argparse.Namespace, command: Command, program: str) -> None:
    """What argparse cannot check."""
    for argument in command.arguments:
        value = getattr(options, argument.keyword, None)
        if argument.check is not None and value is not None:
            argument.check(f"{argument.flags[0]} {value}", value)
    if command.check is not None:
        command.check(options, program)
