"""Make an environment: as a whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from accel.environments.environment import Environment, environments, write
from accel.environments.interpreter import distributions_of
from accel.environments.on_disk import begin, cache, changing, finish, free_cache, take_away
from accel.environments.recipes import OLDEST, RECIPES, WORKER, Recipe, too_old
from accel.environments.uv_process import run_uv
from accel.errors import AccelError
from accel.units import size

Say = Callable[[str], None]


def create(recipe: Recipe, *, name: str = "", say: Say = lambda line: None) -> Environment:
    """Make it, or give the one that is there already; `say` hears how far it is.

    >>> create(recipe("openmp"), say=print).name
    'openmp'

    Another process that makes one is waited for.

    Raises:
        AccelError: There is no room, no uv, no network; says what to do. Nothing of it is left then.
    """
    name = name or recipe.name
    asked = f"%accel env create {name}"
    with changing(asked, say) as place:
        if (known := next((each for each in environments() if each.name == name), None)) is not None:
            return known
        folder, began, free_before = place / name, time.monotonic(), shutil.disk_usage(place).free
        _check_free(folder, asked)
        _check_room(recipe, place, free_before, asked)
        begin(folder)
        try:
            _install(recipe, folder, place, _Progress(say, place), asked)
            python = str(folder / "bin" / "python")
            version, found = distributions_of(python, recipe.shown, asked)
            made = Environment(
                name, python, version, found, folder=str(folder), seconds=time.monotonic() - began,
                added_bytes=max(free_before - shutil.disk_usage(place).free, 0), made_of=recipe.requirements,
            )  # fmt: skip
            write(made, folder)
        except BaseException:
            take_away(folder)
            free_cache()
            raise
        finish(folder)
    return made


def adopt(python: str, *, name: str, say: Say = lambda line: None) -> Environment:
    """Take an interpreter that somebody else made for an environment.

    >>> adopt("~/other/bin/python", name="other").versions
    {'torch': '2.9.1'}

    Raises AccelError where it does not run, lacks what a worker needs, has a torch that is too old, or the name is taken.
    """
    asked = f"%accel env create {name} --python {python}"
    if name in {each.name for each in RECIPES}:
        raise AccelError(asked, because=f"{name} is one that accel makes itself", do="Give another name.")
    program = shutil.which(os.path.expanduser(python))
    if program is None:
        raise AccelError(asked, because="there is no such program", do="Give the file of an interpreter.")
    # Not what links lead to: that would be the Python that a virtual environment was made of.
    program = os.path.abspath(program)
    needed = ["torch", *(text.split(">")[0] for text in WORKER)]
    version, found = distributions_of(
        program, [*needed, *(each for recipe in RECIPES for each in recipe.shown)], asked
    )
    if missing := [each for each in needed if each not in found]:
        raise AccelError(
            asked, because=f"that Python lacks {', '.join(missing)}",
            do=f"Install what is missing there: {program} -m pip install {' '.join(missing)}",
        )  # fmt: skip
    if too_old(found["torch"]):
        raise AccelError(
            asked, because=f"it has torch {found['torch']}, and cells are tried on torch {OLDEST} and later",
            do="Install a later one there.",
        )  # fmt: skip
    with changing(asked, say) as place:
        if any(each.name == name for each in environments()):
            raise AccelError(
                asked,
                because=f"there is an environment {name} already",
                do="Give another name, or remove it first.",
            )
        _check_free(place / name, asked)
        shown = {each: found[each] for each in found if each not in needed or each == "torch"}
        made = Environment(name, program, version, shown)
        begin(place / name)
        try:
            (place / name).mkdir()
            write(made, place / name)
        except BaseException:
            take_away(place / name)
            raise
        finish(place / name)
    return made


class _Progress:
    """Says uv's lines, and how many bytes have come; without a line, the bytes alone."""

    def __init__(self, say: Say, place: Path) -> None:
        self._say, self._place, self._began = say, place, time.monotonic()
        self._free_bytes = shutil.disk_usage(place).free

    def __call__(self, line: str) -> None:
        came = max(self._free_bytes - shutil.disk_usage(self._place).free, 0)
        self._say(f"{time.monotonic() - self._began:.0f} s, {size(came)}" + (f": {line}" if line else ""))


def _install(recipe: Recipe, folder: Path, place: Path, progress: Say, asked: str) -> None:
    variables = {
        "NO_COLOR": "1", "FORCE_COLOR": "", "CLICOLOR_FORCE": "",  # a kernel asks programs for colours
        "UV_CACHE_DIR": str(cache()), "UV_LINK_MODE": "hardlink", "UV_NO_PROGRESS": "1", "VIRTUAL_ENV": "",
        "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1",  # as pip: a company's proxy has its certificate there; the older name too
    }  # fmt: skip
    python = str(folder / "bin" / "python")
    for words in (
        ["venv", "--python", sys.executable, "--no-project", str(folder)],
        ["pip", "install", "--python", python, *recipe.everything],
    ):
        run_uv(words, folder=place, variables=variables, say=progress, asked=asked)


def _check_room(recipe: Recipe, place: Path, free_bytes: int, asked: str) -> None:
    """A disk that cannot hold it is found before half of it has come."""
    there = environments()
    if free_bytes < recipe.needed_bytes(there):
        raise AccelError(
            asked, because=f"it takes {recipe.needs(there)}, and {place} has {size(free_bytes)} left",
            do="Free some, or name another disk with ACCEL_ENVIRONMENTS.",
        )  # fmt: skip


def _check_free(folder: Path, asked: str) -> None:
    if folder.exists():
        raise AccelError(
            asked, because=f"{folder} is there, and no environment that this version of accel can read",
            do="Move it away, or remove it by hand.",
        )  # fmt: skip
