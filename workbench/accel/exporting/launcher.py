"""What starts a program with a plan: a shell script, or a recipe of a container, for what no line of code can do."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.accelerations.allocator import PACKAGES
from accel.accelerations.started import OURS
from accel.exporting.saving import save_new
from accel.processes.start import PRELOAD, Start
from accel.shown import Shown

if TYPE_CHECKING:
    from accel.plans.plan import Plan

# The forms, with the usual name of each file.
FILES = {"shell": "train.sh", "dockerfile": "Dockerfile", "apptainer": "train.def"}
INTEL_OPENMP = "libiomp5"
_PAGES = "https://download.pytorch.org/whl"
_ON_A_PAGE = re.compile(r"cpu|xpu|cu\d+|rocm[\d.]+")
_UNBUILT = "It was written, not built: no container was made of it."


@dataclass(frozen=True)
class Launcher(Shown):
    """A file that starts a program with a plan's variables, libraries and interpreter.

    >>> print(accel.export("shell", "omp_wait_policy"))
    >>> accel.export("dockerfile", "allocator").save("Dockerfile")
    """

    form: str
    plan: str
    code: str
    note: str = ""

    def save(self, path: str | Path | None = None) -> Path:
        """Write it to a new file, by default under its usual name; a script may be run then."""
        written = save_new(path or FILES[self.form], self.code)
        if self.form == "shell":
            written.chmod(0o755)
        return written

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {"form": self.form, "plan": self.plan, "code": self.code, "note": self.note}


def launcher(plan: Plan, form: str, *, versions: dict[str, str]) -> Launcher:
    """The file for a plan; `versions` are of the distributions that the environment has.

    >>> print(launcher(Plan.parse("omp_wait_policy"), "shell", versions={}).code)

    Raises AccelError for a plan that no process has to be started with.
    """
    start = plan.check_starts(f"%accel export --to {form} {plan}", in_container=form != "shell")
    also = f" Its own first lines, after the model is made: {plan.lines}" if plan.lines else ""
    written = _FORMS[form](start, f"{plan}.{also}", versions)
    note = " ".join(filter(None, ["" if form == "shell" else _UNBUILT, also.strip()]))
    return Launcher(form, str(plan), written, note)


def _shell(start: Start, plan: str, versions: dict[str, str]) -> str:
    lines = ["#!/bin/sh", f"# sh {FILES['shell']} train.py starts train.py with {plan}", "set -eu"]
    lines += [f"unset {name}" for name in start.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in start.of_program(OURS)]
    for file in start.preload:  # the loader would go on without a missing one
        lines.append(
            f"[ -e {shlex.quote(file)} ] || {{ echo {shlex.quote(f'{file} is not there')} >&2; exit 1; }}"
        )
    if start.preload:
        lines.append(f'export {PRELOAD}={shlex.quote(":".join(start.preload))}"${{{PRELOAD}:+:${PRELOAD}}}"')
    return "\n".join([*lines, f'exec {shlex.quote(start.interpreter)} "$@"', ""])


def _dockerfile(start: Start, plan: str, versions: dict[str, str]) -> str:
    lines = [f"# Starts train.py with {plan} {_UNBUILT}", f"FROM python:{_python()}-slim-bookworm"]
    if packages := _packages(start):
        lines += [
            "RUN apt-get update \\",
            f"    && apt-get install --yes --no-install-recommends {' '.join(packages)} \\",
            "    && rm -rf /var/lib/apt/lists/*",
        ]
    lines.append(f"RUN {_pip(versions, start)}")
    lines += [f"RUN {line}  # fails where a library is missing" for line in _loading(start)]
    lines += [f'ENV {name}="{_in_quotes(value)}"' for name, value in _in_container(start)]
    return "\n".join([*lines, "WORKDIR /train", "COPY train.py .", 'ENTRYPOINT ["python", "train.py"]', ""])


def _apptainer(start: Start, plan: str, versions: dict[str, str]) -> str:
    lines = [
        "Bootstrap: docker",
        f"From: python:{_python()}-slim-bookworm",
        "",
        "%help",
        f"    Starts train.py with {plan} {_UNBUILT}",
        "",
    ]
    lines += ["%files", "    train.py /train/train.py", "", "%post"]
    if packages := _packages(start):
        lines.append(
            f"    apt-get update && apt-get install --yes --no-install-recommends {' '.join(packages)}"
        )
    lines.append(f"    {_pip(versions, start)}")
    lines += [f"    {line}" for line in _loading(start)]
    lines += ["", "%environment"]
    lines += [f"    export {name}={shlex.quote(value)}" for name, value in _in_container(start)]
    return "\n".join([*lines, "", "%runscript", '    exec python /train/train.py "$@"', ""])


_FORMS: dict[str, Callable[[Start, str, dict[str, str]], str]] = {
    "shell": _shell, "dockerfile": _dockerfile, "apptainer": _apptainer,
}  # fmt: skip


def _in_container(start: Start) -> list[tuple[str, str]]:
    """The same with the libraries by the names under which the container's loader knows them."""
    files = _files_in_container(start)
    return [*start.of_program(OURS), *([(PRELOAD, ":".join(files))] if files else [])]


def _files_in_container(start: Start) -> list[str]:
    names = [os.path.basename(file) for file in start.preload]
    return [f"/usr/local/lib/{name}" if INTEL_OPENMP in name else name for name in names]


def _packages(start: Start) -> list[str]:
    return [package for kind, package in PACKAGES.items() if any(kind in file for file in start.preload)]


def _loading(start: Start) -> list[str]:
    """A line that fails where a library is missing: the loader would go on without it."""
    files = _files_in_container(start)
    loads = f"import ctypes; [ctypes.CDLL(file) for file in {files}]"
    return [f"python -c {shlex.quote(loads)}"] if files else []


def _pip(versions: dict[str, str], start: Start) -> str:
    """Builds for a kind of device, as 2.8.0+cpu, are on pages of PyTorch's own."""
    pages = [
        f"--find-links {_PAGES}/{'nightly/' if '.dev' in version else ''}{build}/{name}/"
        for name, version in versions.items() if (build := _build(version))
    ]  # fmt: skip
    return " ".join(["pip install --no-cache-dir", *pages, *map(shlex.quote, _pinned(versions, start))])


def _build(version: str) -> str:
    """What comes behind the number, where PyTorch has a page for it; a build from sources is on none."""
    build = version.partition("+")[2]
    return build if _ON_A_PAGE.fullmatch(build) else ""


def _pinned(versions: dict[str, str], start: Start) -> list[str]:
    exact = {
        name: version if _build(version) else version.partition("+")[0] for name, version in versions.items()
    }
    needs_intels = "intel-openmp" not in versions and any(INTEL_OPENMP in file for file in start.preload)
    return [
        *(f"{name}=={version}" for name, version in exact.items()),
        *(["intel-openmp"] if needs_intels else []),
    ]


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _in_quotes(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
