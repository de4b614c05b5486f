"""Every command once: its table, its parser, its completion and its help.

parse("try channels_last")     Namespace of Python keywords, or an AccelError naming the nearest right word
complete("%accel try ch")      ["channels_last"]
help_text("try")               usage, options and an example
"""

from __future__ import annotations

from accel.commands.command import Argument, Command
from accel.commands.completing import complete, fragment
from accel.commands.parsing import help_text, parse, split_words
from accel.commands.table import COMMANDS, command_named

__all__ = [
    "COMMANDS", "Argument", "Command", "command_named", "complete", "fragment", "help_text", "parse", "split_words",
]  # fmt: skip
