"""A Jupyter kernel that starts with a plan: with its interpreter, its variables and its libraries."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.accelerations.started import OURS
from accel.environments.environment import ONLY_ACCEL, only_accel
from accel.environments.interpreter import distributions_of
from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.processes.start import PRELOAD
from accel.shown import Shown

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


@dataclass(frozen=True)
class KernelSpec(Shown):
    """A kernel that was installed for this user; choose it from JupyterLab's menu of kernels.

    >>> accel.keep("omp_wait_policy", as_kernel="passive").folder
    '~/.local/share/jupyter/kernels/passive'
    """

    name: str
    plan: str
    folder: str
    variables: tuple[tuple[str, str], ...]
    interpreter: str
    lines: str = ""
    """What a notebook has to run there, for the part of the plan that is code."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "name": self.name, "plan": self.plan, "folder": self.folder, "variables": dict(self.variables),
            "interpreter": self.interpreter, "lines": self.lines,
        }  # fmt: skip


def install_kernel(plan: Plan, name: str) -> KernelSpec:
    """Install it; one of that name that we installed is replaced.

    >>> install_kernel(Plan.parse("omp_wait_policy"), "passive")

    Raises AccelError where the name is no name or somebody else's, the interpreter has no ipykernel, or a file is missing.
    """
    from jupyter_client.kernelspec import KernelSpecManager

    asked = f"%accel keep {plan} --as-kernel {name}"
    start = plan.check_starts(asked)
    if not _NAME.fullmatch(name):
        raise AccelError(
            asked,
            because="a kernel's name has letters, digits, dots, dashes and underscores",
            do="Give another name.",
        )
    manager = KernelSpecManager()
    name = name.lower()  # as Jupyter has all names
    known = manager.find_kernel_specs().get(name)
    if known is not None and not _is_ours(Path(known)):
        raise AccelError(
            asked,
            because=f"there is a kernel {name} that accel did not make, in {known}",
            do="Give another name.",
        )
    _check_ipykernel(start.interpreter, asked)
    variables = start.of_program(OURS)
    folder = Path(manager.user_kernel_dir) / name
    if start.python:  # accel is not installed there
        variables.append(("PYTHONPATH", str(folder / ONLY_ACCEL)))
    if start.preload:
        variables.append((PRELOAD, start.preloaded(os.environ.get(PRELOAD, ""))))
    described = {
        "argv": [start.interpreter, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"{name} ({plan})", "language": "python",
        "env": {variable: value.replace("$", "$$") for variable, value in variables},  # Jupyter fills in names after a $
        "metadata": {"accel": {"plan": str(plan)}},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as written:
        (Path(written) / "kernel.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
        manager.install_kernel_spec(written, kernel_name=name, user=True)
    if start.python:
        only_accel(folder)
    return KernelSpec(name, str(plan), str(folder), tuple(variables), start.interpreter, plan.lines)


def _is_ours(folder: Path) -> bool:
    try:
        return "accel" in json.loads((folder / "kernel.json").read_text(encoding="utf-8")).get("metadata", {})
    except (OSError, ValueError):
        return False


def _check_ipykernel(python: str, asked: str) -> None:
    _, found = distributions_of(python, ["ipykernel"], asked)
    if not found:
        raise AccelError(
            asked, because=f"{python} has no ipykernel, which a kernel is made of",
            do=f"uv pip install --python {python} ipykernel, then try again.",
        )  # fmt: skip
