"""Scripts that start a training on a cluster: for torchrun, Open MPI and SLURM, in a container or not; without accel."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.launchers.launcher import setup_of
from accel.distributed.jobs.launchers.slurm import request_lines
from accel.exporting.saving import make_folder, save_new
from accel.shown import Shown

PROGRAM = "train.py"
FILES = {"torchrun": "train_torchrun.sh", "mpirun": "train_mpirun.sh", "slurm": "train.sbatch"}
_CONTAINER = [
    "# With CONTAINER=image.sif each rank runs in it, by Apptainer; --nv where there is a GPU.",
    "run=({python})",
    'if [ -n "${{CONTAINER:-}}" ]; then',
    "  nv=()",
    "  if command -v nvidia-smi >/dev/null; then nv=(--nv); fi",
    '  run=(apptainer exec ${{nv[@]+"${{nv[@]}}"}} "$CONTAINER" python)',
    "fi",
]


@dataclass(frozen=True)
class ClusterScripts(Shown):
    """A program and the script that starts it: `save` writes both into a folder.

    >>> accel.export("slurm", on="mycluster").save("job")
    """

    launcher: str
    program: str
    script: str
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Names and texts."""
        return ((PROGRAM, self.program), (FILES[self.launcher], self.script))

    def save(self, folder: str | Path) -> tuple[Path, ...]:
        """Write both to new files in a folder, which is made; the script may be run then."""
        place = Path(folder).expanduser()
        make_folder(place)
        written = tuple(save_new(place / name, text) for name, text in self.files)
        written[1].chmod(0o755)
        return written

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {"launcher": self.launcher, "files": dict(self.files), "notes": list(self.notes)}


def script_for(cluster: Cluster) -> str:
    """The script of the cluster's launcher.

    >>> print(script_for(Cluster(launcher="torchrun", ranks_per_node=4)))
    """
    return _SCRIPTS[cluster.launcher](cluster)


def _framed(cluster: Cluster, lines: list[str], *, head: Sequence[str] = ()) -> str:
    """The cluster's own lines come before `set -u`: modules and conda read variables that are not set."""
    python = cluster.python or "python"
    container = [line.format(python=shlex.quote(python)) for line in _CONTAINER]
    return "\n".join(["#!/bin/bash", *head, *setup_of(cluster), "set -euo pipefail", *container, *lines, ""])


def _torchrun(cluster: Cluster) -> str:
    return _framed(cluster, [
        *_where(cluster), 'cd "$(dirname "$0")"',
        f'exec "${{run[@]}}" -m torch.distributed.run {_rendezvous(cluster)} {_options(cluster)}{PROGRAM} "$@"',
    ])  # fmt: skip


def _where(cluster: Cluster) -> list[str]:
    if len(cluster.hosts) < 2:
        return []
    names = [host for host, _ in cluster.hosts]
    return [
        f"# Start this on each of {' '.join(names)}: with NODE=0 on {names[0]}, NODE=1 on the next.",
        f"ranks=({' '.join(str(ranks) for _, ranks in cluster.hosts)})",
        ': "${NODE:?which of the machines this is, from 0}"',
    ]


def _rendezvous(cluster: Cluster) -> str:
    if len(cluster.hosts) < 2:
        return f'--nproc-per-node "${{RANKS:-{cluster.ranks}}}" --standalone'
    first = f"${{FIRST_HOST:-{cluster.hosts[0][0]}}}:${{PORT:-29400}}"
    return (
        f'--nproc-per-node "${{ranks[$NODE]}}" --nnodes {len(cluster.hosts)} --node-rank "$NODE" '
        f'--rdzv-backend c10d --rdzv-endpoint "{first}"'
    )


def _mpirun(cluster: Cluster) -> str:
    first = cluster.hosts[0][0] if cluster.hosts else "127.0.0.1"
    hosts = f" --host {','.join(f'{host}:{ranks}' for host, ranks in cluster.hosts)}" if cluster.hosts else ""
    return _framed(cluster, [
        f'export MASTER_ADDR="${{MASTER_ADDR:-{first}}}" MASTER_PORT="${{MASTER_PORT:-29500}}"',
        'folder=$(cd "$(dirname "$0")" && pwd)',
        f'exec mpirun -n "${{RANKS:-{cluster.ranks}}}"{hosts} --bind-to none -x MASTER_ADDR -x MASTER_PORT '
        f'{"".join(f"-x {name} " for name in cluster.env)}{_options(cluster)}"${{run[@]}}" "$folder/{PROGRAM}" "$@"',
    ])  # fmt: skip


def _slurm(cluster: Cluster) -> str:
    return _framed(cluster, [
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))",
        "export MASTER_ADDR MASTER_PORT",
        'cd "${SLURM_SUBMIT_DIR:?submit it with sbatch}"',
        f'exec srun --kill-on-bad-exit=1 "${{run[@]}}" {PROGRAM} "$@"',
    ], head=request_lines(cluster, name="train", output="train-%j.txt"))  # fmt: skip


def _options(cluster: Cluster) -> str:
    return "".join(f"{shlex.quote(option)} " for option in cluster.options)


_SCRIPTS: dict[str, Callable[[Cluster], str]] = {"torchrun": _torchrun, "mpirun": _mpirun, "slurm": _slurm}
