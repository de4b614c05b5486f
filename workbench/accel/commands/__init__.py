"""The commands: one file each, with its arguments, its checks and what it runs; `table.py` lists them.

parse("try channels_last")     Namespace of Python keywords, or an AccelError naming the nearest right word
complete("%accel try ch")      ["channels_last"]
help_on("try")                 usage, options and an example
"""

from __future__ import annotations

from accel.commands.command import Argument, Command
from accel.commands.line.completing import complete, fragment
from accel.commands.line.parsing import parse, split_words
from accel.commands.place import Place
from accel.commands.table import COMMANDS, command_named, help_on

__all__ = [
    "COMMANDS", "Argument", "Command", "Place", "command_named", "complete", "fragment", "help_on", "parse", "split_words",
]  # fmt: skip
