"""A rehearsal of a batch script: bash runs it with stand-ins for SLURM, and each `python` notes down who it is."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from accel.errors import AccelError

Process = dict[str, str]
TIMEOUT_S = 60
MOST_TASKS = 64
STAND_INS = Path(__file__).parent / "stand_ins"
COMMANDS = ("srun", "torchrun", "python", "python3", "hostname", "scontrol")
_LONG = {"-N": "--nodes", "-n": "--ntasks"}


@dataclass(frozen=True)
class Rehearsal:
    """The Python processes that a script started, with their variables, and the last line of what it complained about."""

    processes: tuple[Process, ...]
    said: str


def rehearse(script: str) -> Rehearsal:
    """Run a batch script with stand-ins, and see which Python processes it starts, on which node, with which variables.

    >>> len(rehearse("#SBATCH --nodes=2\\n#SBATCH --ntasks-per-node=4\\nsrun python train.py").processes)
    8

    Raises:
        AccelError: There is no bash, the script asks for more tasks than can be rehearsed, or it does not end.
    """
    if shutil.which("bash") is None:
        raise AccelError("A rehearsal", because="there is no bash here", do="Try it on Linux.")
    wish = _asked_for(script)
    nodes = wish.get("--nodes", 1)
    tasks = wish.get("--ntasks-per-node", -(-wish.get("--ntasks", nodes) // max(nodes, 1)))
    if not 1 <= nodes * tasks <= MOST_TASKS:
        raise AccelError(
            "A rehearsal", because=f"{nodes * tasks} tasks are asked for", do=f"Ask for 1 to {MOST_TASKS}."
        )
    with tempfile.TemporaryDirectory(prefix="accel-rehearsal-") as name:
        folder = Path(name)
        (folder / "script").write_text(script, encoding="utf-8", errors="replace")
        _write_commands(folder)
        with (folder / "said").open("wb") as said:
            _run(folder, _environment(folder, nodes, tasks), said.fileno())
        lines = (folder / "said").read_text(errors="replace").strip().splitlines()
        noted = sorted((folder / "noted").iterdir())
        return Rehearsal(tuple(json.loads(file.read_text()) for file in noted), (lines or [""])[-1][:200])


def _asked_for(script: str) -> dict[str, int]:
    """Numbers of nodes and tasks in the #SBATCH lines above the first command; SLURM reads no others."""
    found: dict[str, int] = {}
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        words = line.partition("#SBATCH")[2].split()
        for at, word in enumerate(words):
            option, _, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
            value = value or (words[at + 1] if at + 1 < len(words) else "")
            if value.isdigit():
                found[_LONG.get(option, option)] = int(value)
    return found


def _write_commands(folder: Path) -> None:
    (folder / "noted").mkdir()
    (folder / "bin").mkdir()
    for command in COMMANDS:
        stand_in = STAND_INS / f"{command.removesuffix('3')}.py"
        path = folder / "bin" / command
        path.write_text(
            f'#!/bin/bash\nexec {shlex.quote(sys.executable)} -I {shlex.quote(str(stand_in))} "$@"\n'
        )
        path.chmod(0o755)


def _run(folder: Path, environment: dict[str, str], said: int) -> None:
    """Run it in a session of its own; nothing that it started outlives it."""
    process = subprocess.Popen(
        ["bash", str(folder / "script")], env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        start_new_session=True,
    )  # fmt: skip
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise AccelError(
            "A rehearsal",
            because=f"the script had not ended after {TIMEOUT_S} s",
            do="Look for what it waits for.",
        ) from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(folder: Path, nodes: int, tasks: int) -> dict[str, str]:
    """What SLURM would set for the batch script, and where the stand-ins are found; nothing of this kernel's own ranks."""
    listed = f"n[1-{nodes}]" if nodes > 1 else "n1"
    return {
        "PATH": f"{folder / 'bin'}:{os.defpath}", "HOME": str(folder), "HOSTNAME": "n1",
        "REHEARSED_FOLDER": str(folder / "noted"), "REHEARSED_NODES": str(nodes), "REHEARSED_TASKS": str(tasks),
        "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": listed, "SLURM_NODELIST": listed, "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NTASKS": str(nodes * tasks), "SLURM_NTASKS_PER_NODE": str(tasks),
        "SLURMD_NODENAME": "n1",
    }  # fmt: skip
