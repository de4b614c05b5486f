"""What `%accel env` and `accel.environments` give: what is there and can be made, or one that was made or removed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from accel.environments.creating import adopt, create
from accel.environments.environment import Environment, environments
from accel.environments.on_disk import is_being_changed, remove, unfinished
from accel.environments.recipes import RECIPES, Recipe, recipe
from accel.environments.uv_process import uv_program
from accel.environments.wanted import find
from accel.errors import AccelError, UnknownName
from accel.shown import Shown

Does = Literal["list", "create", "remove", "show"]
DOES: tuple[str, ...] = get_args(Does)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")


@dataclass(frozen=True)
class Environments(Shown):
    """Those that are there, and what else can be made; `why_none` says why nothing can.

    >>> print(accel.environments())
    """

    rows: tuple[Environment, ...]
    can_be_made: tuple[Recipe, ...] = ()
    why_none: str = ""
    unfinished: tuple[str, ...] = ()
    """The names of those that a killed process left."""
    is_being_changed: bool = False
    """Whether another process makes or removes one now."""
    done: str = ""
    """What was just made or removed, in a sentence."""

    def to_dict(self) -> dict[str, Any]:
        """The rows as plain values."""
        return {"environments": [asdict(row) for row in self.rows], "done": self.done}


def environments_asked(
    does: str, name: str | None, *, python: str | None = None, say: Callable[[str], None] = lambda line: None
) -> Environments:
    """List, make, remove or show; see `accel.environments`."""
    if does not in DOES:
        raise UnknownName("word of %accel env", does, DOES)
    if does == "list" and name is None:
        return _all()
    asked = f"%accel env {does} {name or ''}".rstrip()
    if name is None or not _NAME.fullmatch(name.replace("==", "-")):
        because = (
            "it needs the name of an environment"
            if name is None
            else "a name has letters, digits, dots, dashes and underscores"
        )
        raise AccelError(
            asked, because=because, do="Write intel, nni, openmp, torch==2.8, or a name of your own with --python FILE."
        )  # fmt: skip
    if python is not None and does != "create":
        raise AccelError(
            f"{asked} --python", because="an interpreter is named to make an environment of it",
            do="Write %accel env create NAME --python FILE.",
        )  # fmt: skip
    own_name = name.replace("==", "-")
    if does == "create":
        return _adopted(own_name, python, say) if python else _made(name, say)
    if does == "remove":
        remove(own_name, say)
        return Environments(environments(), done=f"{own_name} is removed.")
    return Environments((find(own_name),))


def _all() -> Environments:
    rows = environments()
    known = {each.name for each in rows}
    return Environments(
        rows, tuple(each for each in RECIPES if each.name not in known), _why_none(), unfinished(), is_being_changed()
    )  # fmt: skip


def _adopted(name: str, python: str, say: Callable[[str], None]) -> Environments:
    return Environments(
        (adopt(python, name=name, say=say),), done=f"{name} is {python}; that Python stays as it is."
    )


def _made(name: str, say: Callable[[str], None]) -> Environments:
    wanted, there = recipe(name), environments()
    if wanted.name in {each.name for each in there}:
        return Environments((find(wanted.name),), done=f"{wanted.name} is there already.")
    needs = f"making {wanted.name} takes {wanted.needs(there)}"
    say(needs)
    made = create(wanted, say=lambda line: say(f"{needs}; {line}"))
    return Environments((made,), done=f"{wanted.name} is made.")


def _why_none() -> str:
    try:
        uv_program()
    except AccelError as error:
        return f"{error.because}. {error.do}"
    return ""
