"""Batch scripts rehearsed: what they start on a cluster they start here, and nothing of it is left over."""

from __future__ import annotations

import time

import psutil
import pytest

from accel.errors import AccelError
from accel.labs.exercises import rehearsal
from accel.labs.exercises.rehearsal import rehearse

TWO_BY_FOUR = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n"


def nodes(script):
    return [each["node"] for each in rehearse(script).processes]


@pytest.mark.parametrize(
    ("script", "started"),
    [
        (TWO_BY_FOUR + "python train.py", ["n1"]),
        (TWO_BY_FOUR + "srun python train.py", ["n1"] * 4 + ["n2"] * 4),
        (TWO_BY_FOUR + "srun -n 2 python train.py", ["n1", "n2"]),
        (TWO_BY_FOUR + "srun --ntasks=8 -l python train.py", ["n1"] * 4 + ["n2"] * 4),
        (TWO_BY_FOUR + "srun --ntasks-per-node 1 --cpus-per-task 4 python3 train.py", ["n1", "n2"]),
        ("#SBATCH -N2 --ntasks-per-node 1\nsrun python train.py", ["n1", "n2"]),
        ("#SBATCH -n 3\nsrun python train.py", ["n1", "n1", "n1"]),
        ("python train.py\n#SBATCH --nodes=2", ["n1"]),
        (TWO_BY_FOUR + "srun -n 9999 python train.py", []),
    ],
)
def test_a_script_starts_what_it_would_start_on_a_cluster(script, started):
    assert nodes(script) == started


def test_torchrun_gives_each_rank_its_numbers_and_the_meeting_place():
    script = (
        "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
        'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        'srun torchrun --nnodes=2 --nproc-per-node=2 --rdzv-endpoint="$first:29500" train.py'
    )
    names = ("node", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
    assert [tuple(each[name] for name in names) for each in rehearse(script).processes] == [
        ("n1", "0", "0", "4", "n1"), ("n1", "1", "1", "4", "n1"), ("n2", "2", "0", "4", "n1"), ("n2", "3", "1", "4", "n1"),
    ]  # fmt: skip


def test_bash_knows_the_nodes_own_name_before_and_in_srun():
    script = TWO_BY_FOUR + "export MASTER_ADDR=$HOSTNAME\nsrun -n 2 bash -c 'LOCAL_RANK=$HOSTNAME python x'"
    found = [(each["MASTER_ADDR"], each["LOCAL_RANK"]) for each in rehearse(script).processes]
    assert found == [("n1", "n1"), ("n1", "n2")]


def test_what_a_script_complains_about_is_known():
    assert "not found" in rehearse("mpirn python train.py").said


def test_a_child_in_the_background_does_not_outlive_the_script():
    before = set(psutil.pids())
    began = time.monotonic()
    rehearse("sleep 600 &\necho done")
    assert time.monotonic() - began < 300
    left = [process for pid in set(psutil.pids()) - before for process in sleeping(pid)]
    _, alive = psutil.wait_procs(
        left, timeout=10
    )  # a killed process is in the table until the system has ended it
    assert alive == []


def sleeping(pid):
    """The process, where it is the child of that script."""
    try:
        process = psutil.Process(pid)
        return [process] if "600" in process.cmdline() else []
    except psutil.Error:
        return []


@pytest.mark.parametrize(
    ("script", "says"),
    [("#SBATCH --nodes=99", "99 tasks"), ("sleep 600", "had not ended")],
    ids=["too many", "never ends"],
)
def test_a_script_that_cannot_be_rehearsed_is_an_error(monkeypatch, script, says):
    monkeypatch.setattr(rehearsal, "TIMEOUT_S", 1)
    with pytest.raises(AccelError, match=says):
        rehearse(script)
