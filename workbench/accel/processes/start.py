"""With which interpreter a process of ours starts, and with which variables: what libraries read before any code of ours runs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from accel.errors import AccelError

CACHE = "TORCHINDUCTOR_CACHE_DIR"
PRELOAD = "LD_PRELOAD"
OWN_PRELOAD = "ACCEL_OWN_PRELOAD"  # what the child gives back to LD_PRELOAD: what it starts itself has no part in a trial
Variables = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Start:
    """How a process begins. The usual one has the kernel's interpreter and its variables.

    >>> Start(variables=(("OMP_WAIT_POLICY", "passive"),)).of_child({"HOME": "/root"})
    {'HOME': '/root', 'OMP_WAIT_POLICY': 'passive'}

    `environment` names the interpreter's environment for people; `preload` are libraries that come before all others.
    """

    variables: Variables = ()
    unset: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    python: str = ""
    environment: str = ""

    def __bool__(self) -> bool:
        return self != Start()

    @property
    def interpreter(self) -> str:
        """The program to run."""
        return self.python or sys.executable

    def of_program(self, ours: Sequence[str]) -> list[tuple[str, str]]:
        """The variables that a program reads; `ours` are those by which the workbench finds itself."""
        return [(name, value) for name, value in self.variables if name not in ours]

    def preloaded(self, before: str) -> str:
        """The value of LD_PRELOAD, with what was in it before.

        >>> Start(preload=("libjemalloc.so.2",)).preloaded("")
        'libjemalloc.so.2'
        """
        return ":".join([*self.preload, *filter(None, [before])])

    def with_cache(self, threads: int) -> Start:
        """With a cache of compiled code of its own: older versions of torch take code that was compiled for other threads."""
        folder = os.environ.get(CACHE) or os.path.join(tempfile.gettempdir(), f"accel-inductor-{os.getuid()}")
        own = os.path.join(folder, self.environment or "python", f"{threads}-threads")
        return replace(self, variables=(*self.variables, (CACHE, own)))

    def of_child(self, own: Mapping[str, str]) -> dict[str, str]:
        """The child's variables, from those of the process that starts it."""
        variables = {name: value for name, value in own.items() if name not in self.unset}
        variables |= dict(self.variables)
        if self.preload:
            variables[OWN_PRELOAD] = variables.get(PRELOAD, "")
            variables[PRELOAD] = self.preloaded(variables[OWN_PRELOAD])
        return variables


def together(starts: Sequence[Start]) -> Start:
    """One start with what all of them ask for.

    >>> together([Start(variables=(("A", "1"),)), Start(variables=(("B", "2"),))]).variables
    (('A', '1'), ('B', '2'))

    Raises AccelError where two want different interpreters, or different values of a variable.
    """
    pythons = {each.python: each.environment for each in starts if each.python}
    if len(pythons) > 1:
        raise AccelError(
            f"One process in the environments {' and '.join(pythons.values())}",
            because="a process has one interpreter", do="Try them in plans of their own.",
        )  # fmt: skip
    variables: dict[str, str] = {}
    for name, value in (pair for each in starts for pair in each.variables):
        if variables.setdefault(name, value) != value:
            raise AccelError(
                f"One process with {name}={variables[name]} and {name}={value}",
                because="a variable has one value", do="Try them in plans of their own.",
            )  # fmt: skip
    ((python, environment),) = pythons.items() or [("", "")]
    return Start(
        tuple(variables.items()), tuple(dict.fromkeys(name for each in starts for name in each.unset)),
        tuple(dict.fromkeys(file for each in starts for file in each.preload)), python, environment,
    )  # fmt: skip


def give_back_preload() -> None:
    """In a child, once it runs: what it starts itself loads what the kernel's other children do."""
    own = os.environ.pop(OWN_PRELOAD, None)
    if own is not None:
        os.environ.pop(PRELOAD, None)
        os.environ.update({PRELOAD: own} if own else {})
