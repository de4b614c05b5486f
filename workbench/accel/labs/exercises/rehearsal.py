"""A rehearsal of a batch script: bash runs it with stand-ins for SLURM, and each `python` notes down who it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from accel.errors import AccelError

Process = dict[str, str]
TIMEOUT_S = 60
MOST_TASKS = 64
NOTED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "OMP_NUM_THREADS",
)
_OPTION = re.compile(r"^#SBATCH\s+--?(nodes|N|ntasks-per-node|ntasks|n)[=\s]\s*(\d+)", re.MULTILINE)
_SHORT = {"N": "nodes", "n": "ntasks"}

STAND_INS = {
    "hostname": 'echo "${SLURMD_NODENAME:-n1}"\n',
    "scontrol": 'for name in $REHEARSED_NODES; do echo "$name"; done\n',
    "python": 'exec "$REHEARSED_PYTHON" -I "$REHEARSED_FOLDER/note.py"\n',
}
# Starts one command after the other, as each task of the request would, and stops at none that fails.
SRUN = """
import os, subprocess, sys
words = sys.argv[1:]
while words and words[0].startswith("-"):
    words = words[2 if len(words[0]) == 2 else 1:]
nodes, tasks = os.environ["REHEARSED_NODES"].split(), int(os.environ["REHEARSED_TASKS"])
codes = []
for rank in range(len(nodes) * tasks):
    node = nodes[rank // tasks]
    own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % tasks), "SLURM_NODEID": str(rank // tasks)}
    own["SLURMD_NODENAME"] = node
    codes.append(subprocess.call(words, env=os.environ | own) if words else 1)
sys.exit(max(codes))
"""
NOTE = """
import json, os
noted = {{name: os.environ[name] for name in {noted!r} if name in os.environ}}
noted["node"] = os.environ.get("SLURMD_NODENAME", "n1")
with open(os.environ["REHEARSED_FOLDER"] + "/processes", "a") as kept:
    kept.write(json.dumps(noted) + "\\n")
"""


def rehearse(script: str) -> list[Process]:
    """The Python processes that a batch script starts: their node, and the variables that matter to PyTorch.

    >>> len(rehearse("#SBATCH --nodes=2\\n#SBATCH --ntasks-per-node=4\\nsrun python train.py"))
    8

    Raises:
        AccelError: The script asks for more tasks than can be rehearsed, or does not end.
    """
    wish = {_SHORT.get(name, name): int(number) for name, number in _OPTION.findall(script)}
    nodes = wish.get("nodes", 1)
    tasks = wish.get("ntasks-per-node", -(-wish.get("ntasks", nodes) // max(nodes, 1)))
    if not 1 <= nodes * tasks <= MOST_TASKS:
        raise AccelError(
            "A rehearsal", because=f"{nodes * tasks} tasks are asked for", do=f"Ask for 1 to {MOST_TASKS}."
        )
    with tempfile.TemporaryDirectory(prefix="accel-rehearsal-") as name:
        folder = Path(name)
        _write_stand_ins(folder)
        try:
            subprocess.run(
                ["bash", "-c", script],
                env=_environment(folder, nodes, tasks),
                cwd=folder,
                capture_output=True,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise AccelError(
                "A rehearsal",
                because=f"the script had not ended after {TIMEOUT_S} s",
                do="Look for what it waits for.",
            ) from None
        noted = folder / "processes"
        return [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []


def _write_stand_ins(folder: Path) -> None:
    (folder / "note.py").write_text(NOTE.format(noted=NOTED))
    (folder / "srun.py").write_text(SRUN)
    scripts = STAND_INS | {
        "python3": STAND_INS["python"],
        "srun": 'exec "$REHEARSED_PYTHON" -I "$REHEARSED_FOLDER/srun.py" "$@"\n',
    }
    (folder / "bin").mkdir()
    for command, body in scripts.items():
        path = folder / "bin" / command
        path.write_text(f"#!/bin/bash\n{body}")
        path.chmod(0o755)


def _environment(folder: Path, nodes: int, tasks: int) -> dict[str, str]:
    """What SLURM would set for the batch script, and where the stand-ins are found; nothing of this kernel's own ranks."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    return {
        "PATH": f"{folder / 'bin'}:{os.defpath}",
        "HOME": str(folder),
        "REHEARSED_FOLDER": str(folder),
        "REHEARSED_PYTHON": sys.executable,
        "REHEARSED_NODES": " ".join(names),
        "REHEARSED_TASKS": str(tasks),
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NODELIST": f"n[1-{nodes}]" if nodes > 1 else "n1",
        "SLURM_NODELIST": f"n[1-{nodes}]" if nodes > 1 else "n1",
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NTASKS": str(nodes * tasks),
        "SLURM_NTASKS_PER_NODE": str(tasks),
        "SLURMD_NODENAME": "n1",
    }
