"""The environments that are there: interpreters of their own, with the versions of what people ask for."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from accel.processes.kernel_folder import FOLDER, own_kernel_folder
from accel.processes.start import Start

DESCRIPTION = "environment.json"  # written last: a folder without it is not finished
OWN_PLACE = "ACCEL_ENVIRONMENTS"
ONLY_ACCEL = "only_accel"


@dataclass(frozen=True)
class Environment:
    """An interpreter, and what it has; `folder` is empty where somebody else made it.

    >>> environment = find("intel"); environment.versions["torch"]
    '2.8.0+cu128'
    """

    name: str
    python: str
    python_version: str
    versions: dict[str, str]
    folder: str = ""
    seconds: float = 0.0
    added_bytes: int = 0
    """What making it took from the disk."""
    made_of: tuple[str, ...] = ()
    """What was installed."""

    @property
    def start(self) -> Start:
        """How a process of it is started: accel is found through a folder that holds nothing else."""
        folder = os.environ.get(FOLDER) or own_kernel_folder().path
        return Start(
            (("PYTHONPATH", only_accel(folder)), ("PYTHONNOUSERSITE", "1")),
            unset=("PYTHONHOME", "VIRTUAL_ENV"),
            python=self.python,
            environment=self.name,
        )

    @property
    def why_not(self) -> str:
        """Why no cell of this notebook can run in it; empty where one can."""
        if not os.path.exists(self.python):
            return "its Python is gone"
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        if not self.python_version.startswith(f"{own}."):
            return f"it has Python {self.python_version}, and functions travel as bytecode of Python {own}"
        return "" if "torch" in self.versions else "it has no torch"


def base() -> Path:
    """The folder of all: accel-environments in $ACCEL_ENVIRONMENTS, else accel/environments in the user's data folder.

    Nothing else is in it: what a killed process left there is removed.
    """
    named = os.environ.get(OWN_PLACE)
    if named:
        return Path(named).expanduser().absolute() / "accel-environments"
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "accel" / "environments"


def place() -> Path:
    """Those of this minor version of Python, which alone can run functions of this notebook."""
    return base() / f"python{sys.version_info.major}.{sys.version_info.minor}"


def environments() -> tuple[Environment, ...]:
    """All that are finished, by name.

    >>> [each.name for each in environments()]
    ['intel', 'openmp']
    """
    found = []
    for description in sorted(place().glob(f"*/{DESCRIPTION}")):
        try:
            told = json.loads(description.read_text(encoding="utf-8"))
            told |= {"name": description.parent.name, "made_of": tuple(told["made_of"])}
            found.append(Environment(**told))
        except (OSError, ValueError, TypeError, KeyError):  # of another version of accel, or being removed
            continue
    return tuple(found)


def file_in_any(path: str) -> str | None:
    """A file of any environment, this interpreter's own first; None where none has it.

    >>> file_in_any("lib/libiomp5.so")
    '~/.local/share/accel/environments/openmp/lib/libiomp5.so'
    """
    folders = [sys.prefix, *(each.folder for each in environments() if each.folder)]
    return next((file for folder in folders if os.path.isfile(file := os.path.join(folder, path))), None)


def write(environment: Environment, folder: Path) -> None:
    """Say that it is finished: by a name that appears at once, with all that is in it."""
    partial = folder / f"{DESCRIPTION}.partial"
    partial.write_text(json.dumps(asdict(environment), indent=2), encoding="utf-8")
    partial.replace(folder / DESCRIPTION)


def only_accel(folder: str | Path) -> str:
    """A folder in this one with our package and nothing else: the notebook's own libraries are not the environment's.

    >>> only_accel("/tmp/accel-kernel-k3j2h1g0")
    '/tmp/accel-kernel-k3j2h1g0/only_accel'
    """
    made = Path(folder) / ONLY_ACCEL
    made.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (made / "accel").symlink_to(Path(__file__).resolve().parents[1])
    return str(made)
