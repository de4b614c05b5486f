"""`%accel backends`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.techniques.compiling.compile_backends import compile_backends

    return compile_backends()


COMMAND = Command(
    "backends",
    "list the backends that models can be compiled by: which can be used here, and why the others cannot",
    "%accel backends",
    _run,
    (OUT,),
    needs_notebook=False,
    in_python="compile_backends",
)
