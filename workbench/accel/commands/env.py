"""`%accel env`: environments of their own, for other versions of torch and libraries that cannot live beside the notebook's."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command
from accel.doing import doing

if TYPE_CHECKING:
    from accel.commands.place import Place
    from accel.environments.asked import Environments

DOES = ("list", "create", "remove", "show")


def with_progress(does: str, name: str | None, python: str | None) -> Environments:
    """What `%accel env` and `accel.environments` give; it says how far it is."""
    from accel.environments.asked import environments_asked

    now = ["looking at what is there"]
    with doing(lambda: now[0]):
        return environments_asked(does, name, python=python, say=lambda line: now.__setitem__(0, line))


def _run(options: argparse.Namespace, place: Place) -> object:
    found = with_progress(options.does, options.name, options.python)
    if place.has_workbench:
        place.workbench.tell("environments")
    return found


COMMAND = Command(
    "env",
    "list, make and remove environments: other versions of torch, Intel's libraries, NNI",
    "%accel env create intel",
    _run,
    (
        Argument("does", help="list (default), create, remove or show", nargs="?", default="list", choices=DOES),
        Argument(
            "name", help="intel, nni, openmp, torch==X.Y, or a name of your own with --python", nargs="?", default=None,
            metavar="NAME",
        ),
        Argument("--python", help="take this interpreter instead of making one", metavar="FILE", default=None, completes="file"),
        OUT,
    ),
    needs_notebook=False,
    in_python="environments",
)  # fmt: skip
