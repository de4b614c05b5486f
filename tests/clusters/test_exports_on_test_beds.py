"""Exported programs and scripts run as they are, on this machine, on two hosts and on two nodes, and train the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.clusters.trainings import SETUP, cell

pytestmark = pytest.mark.fresh_interpreters
TRAINS = cell(2) + "\nprint(f'final {sum(losses)}')\n"
TOML = """
[clusters.both]
launcher = "mpirun"
hosts = "{hosts}"
options = {options}
env = {{ GLOO_SOCKET_IFNAME = "eth0", OMP_NUM_THREADS = "1" }}
"""


@pytest.fixture(scope="module")
def exported(hosts, tmp_path_factory) -> Path:
    """A folder for each launcher, written by a notebook that keeps a plan."""
    place = tmp_path_factory.mktemp("exports")
    options = [*hosts.cluster("").options]
    (place / "accel.toml").write_text(
        TOML.format(hosts=",".join(f"{address}:1" for address in hosts.addresses), options=options)
    )
    cells = [
        "%load_ext accel",
        SETUP,
        "print('hello')",
        f"%%accel profile\n{TRAINS}",
        "%accel keep channels_last+fused_optimizer",
    ]
    for to in ("torchrun -n 2", "mpirun --on both", "slurm --nodes 2"):
        cells += [f"%accel export --to {to} -o made;", f"made.save({str(place / to.split()[0])!r})"]
    notebook = new_notebook(cells=[new_code_cell(each) for each in cells])
    NotebookClient(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(place)}}
    ).execute()
    assert nbformat.validate(notebook) is None
    return place


def finals(text: str) -> list[str]:
    return sorted(re.findall(r"final ([\d.]+)", text))


def output(words: list[str], **more: str) -> str:
    """What they print in an administrator's shell, which does not know where accel lies."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**plain, "OMP_NUM_THREADS": "1", **more, "PATH": path}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_on_all_three_the_same_losses_come_of_it(exported, hosts, slurm):
    here = output(["bash", str(exported / "torchrun/train_torchrun.sh")])
    root = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": str(hosts.agent),
    }
    both = output(["bash", str(exported / "mpirun/train_mpirun.sh")], **root)
    output(["bash", "-c", f"cd {exported}/slurm && sbatch --wait train.sbatch"], **slurm.variables)
    (nodes,) = (exported / "slurm").glob("train-*.txt")
    assert len(finals(here)) == 2
    assert finals(here) == finals(both) == finals(nodes.read_text())


def test_nothing_of_them_needs_accel(exported):
    written = [file for file in exported.glob("*/*") if file.suffix in (".py", ".sh", ".sbatch")]
    assert len(written) == 6
    assert [file.name for file in written if re.search(r"\baccel\b", file.read_text())] == []
