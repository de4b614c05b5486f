"""The program `accel`: the commands that need no notebook, with the same options and `--json`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from accel.commands import Command, Place, command_named, help_on, parse
from accel.commands.line.ticking import saying
from accel.errors import AccelError
from accel.printing import print_nearest
from accel.shown_text import shown

PROGRAM = "accel"
CANNOT_WRITE = 1
CUT_SHORT = 141  # as of a program that SIGPIPE ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 when the command cannot be run, 141 when nobody reads on (`| head`),
    1 when what it prints cannot be written.

    >>> main(["machine", "--json"])
    0
    """
    print_nearest()
    try:
        text = answer(sys.argv[1:] if arguments is None else arguments)
        return _written(text)
    except AccelError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        _write_no_more()
        return CUT_SHORT


def _written(text: str) -> int:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk
        _write_no_more()
        why = error.strerror or str(error)
        print(
            AccelError("What this prints", because=f"it cannot be written ({why})", do="Write it elsewhere."),
            file=sys.stderr,
        )
        return CANNOT_WRITE
    return 0


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more as it ends


def answer(arguments: Sequence[str]) -> str:
    """What a command prints.

    >>> print(answer(["doctor"]))
    """
    if list(arguments) in (["--version"], ["-V"]):
        from accel import __version__

        return f"accel-workbench {__version__}"
    options = parse(arguments, program=PROGRAM)
    if options.help:
        return str(help_on(options.command, program=PROGRAM))
    command = command_named(options.command or "help")
    if command.needs_notebook:
        raise _needs_notebook(command)
    place = Place(program=PROGRAM)
    with saying(f"{PROGRAM} {command.name}") if command.beats else nullcontext():
        result: Any = command.run(options, place) if options.command else help_on(program=PROGRAM)
    return json.dumps(result.to_dict(), indent=2) if getattr(options, "json", False) else shown(str(result))


def _needs_notebook(command: Command) -> AccelError:
    return AccelError(
        f"{PROGRAM} {command.name}",
        because="it works on the training that runs in a notebook",
        do=f"There, run %load_ext accel, then {command.example}; in a script, call accel.{command.function}().",
    )


if __name__ == "__main__":
    sys.exit(main())
