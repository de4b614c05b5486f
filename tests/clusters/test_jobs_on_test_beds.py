"""The same cell through torchrun, through mpirun on two hosts and as a job of a SLURM with two nodes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import msgspec
import psutil
import pytest
from jupyter_client.manager import KernelManager

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.job_folder import JobDescription, JobFolder
from accel.distributed.jobs.jobs_here import jobs_asked, jobs_here
from accel.distributed.jobs.launchers.table import launcher_of
from accel.errors import AccelError, RankError
from tests.clusters.trainings import SETUP, cell, kill_rank, losses_here, opened, options

pytestmark = pytest.mark.fresh_interpreters
BEDS = ("torchrun", "mpirun", "slurm")
TORCHRUN_ON_HOSTS = "torchrun on hosts"
SLOW = "time.sleep(0.25)"


@cache
def expected(epochs: int) -> list[float]:
    return losses_here(cell(epochs))


def processes_of(folder: Path | str) -> list[str]:
    """Whatever still runs of the jobs in a folder; what is ending has a moment."""
    until = time.monotonic() + 15
    while found := [
        " ".join(each.info["cmdline"])
        for each in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in each.info["cmdline"] or []) and each.pid != os.getpid()
    ]:
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return found


def wait_until(holds, patience_s: float = 90) -> None:
    until = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def wait_for_steps(run, steps: int = 1) -> None:
    until = time.monotonic() + 90
    while not run.lanes or min(lane.step for lane in run.lanes) < steps:
        assert time.monotonic() < until, run.line
        assert not run.is_over, run.line
        time.sleep(0.05)


@pytest.mark.parametrize("cluster", [*BEDS, TORCHRUN_ON_HOSTS], indirect=True)
def test_losses_are_those_of_local_ranks_metrics_are_live_and_nothing_is_left(cluster):
    seen = []
    with opened() as bench:
        source = cell(2, "time.sleep(0.6)")
        result = bench.ranks.run(source, options(cluster), show=lambda run: seen.append(run.lanes))
        assert bench.namespace["losses"] == expected(2)
    steps = [lanes[0].step for lanes in seen if lanes]
    assert len({*steps}) > 2, f"steps were not seen as they were made: {steps}"
    assert (result.steps, [each.threads for each in result.ranks]) == (12, [1, 1])
    assert result.ranks[0].lane.memory_bytes > 0
    assert processes_of(cluster.folder) == []


@pytest.mark.parametrize("cluster", BEDS, indirect=True)
def test_a_job_that_is_cancelled_says_so_and_leaves_no_process(cluster):
    with opened() as bench:
        before = bench.namespace["model"][0].weight.detach().clone()
        run = bench.ranks.begin(cell(50, SLOW), options(cluster))
        wait_for_steps(run)
        os.chdir(Path(cluster.folder).parent)
        run._cell._run.run.cancel()  # as %accel jobs cancel does
        with pytest.raises(AccelError, match="the job was cancelled"):
            run.wait(120)
        assert bench.namespace["model"][0].weight.equal(before)
    assert processes_of(cluster.folder) == []


@pytest.mark.parametrize("cluster", ["mpirun", "slurm"], indirect=True)
def test_stop_ends_all_ranks_after_the_same_step_and_their_state_comes_home(cluster):
    with opened() as bench:
        run = bench.ranks.begin(cell(50, SLOW), options(cluster))
        wait_for_steps(run)
        run.stop()
        result = run.wait(120)
        assert result.was_stopped
        assert len({rank.lane.step for rank in result.ranks}) == 1
        assert len(bench.namespace["losses"]) == result.steps < 300
    assert processes_of(cluster.folder) == []


FIRST_NOTEBOOK = """
import sys, time
from tests.clusters.trainings import cell, opened, options
import msgspec
from accel.distributed.jobs.cluster import Cluster
cluster = msgspec.json.decode(sys.argv[1], type=Cluster)
with opened() as bench:
    run = bench.ranks.begin(cell(4, "time.sleep(0.25)") + "print('last epoch')", options(cluster))
    while not run.lanes or not run.lanes[0].step:
        time.sleep(0.05)
    print("trains", flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("cluster", BEDS, indirect=True)
def test_a_notebook_that_was_killed_in_mid_job_is_followed_by_one_that_takes_the_state_home(
    cluster, monkeypatch
):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", FIRST_NOTEBOOK, msgspec.json.encode(cluster).decode()]
    first = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "trains\n"
    first.kill()
    first.wait()
    monkeypatch.setattr("accel.distributed.jobs.jobs_here.folders", lambda: [Path(cluster.folder)])
    (row,) = jobs_asked("list", None).rows
    assert (row.state, row.ranks) == ("running", 2)
    with opened() as bench:
        result = jobs_asked("home", row.name[-4:], bench.ranks.take_home)
        assert bench.namespace["losses"] == losses_here(cell(4))
        assert result.steps == 24
    (row,) = jobs_asked("list", None).rows
    assert (row.state, row.is_home) == ("done", True)
    assert "last epoch" in str(jobs_asked("logs", row.name))
    assert "is removed" in jobs_asked("remove", row.name).done
    assert jobs_here() == ()


def test_ranks_whose_folder_was_removed_end(tmp_path):
    def has_ended(pid: int) -> bool:
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    with opened() as bench:
        run = bench.ranks.begin(
            cell(500, SLOW), options(Cluster(ranks_per_node=2, folder=str(tmp_path / "jobs")))
        )
        wait_for_steps(run)
        pids = [json.loads(file.read_text())["pid"] for file in tmp_path.glob("jobs/*/ranks/*.began.json")]
        launcher = json.loads(next(tmp_path.glob("jobs/*/launched.json")).read_text())["pid"]
        shutil.rmtree(tmp_path / "jobs")
        wait_until(lambda: all(map(has_ended, pids)), 60)
        os.killpg(launcher, signal.SIGKILL)
        with pytest.raises(AccelError):
            run.wait(90)


def test_a_notebook_without_the_variables_says_which_cells_to_run_first(tmp_path, monkeypatch):
    with opened() as bench:
        bench.ranks.run(cell(1), options(Cluster(ranks_per_node=2, folder=str(tmp_path))))
    monkeypatch.setattr("accel.distributed.jobs.jobs_here.folders", lambda: [tmp_path])
    with opened("import torch") as bench, pytest.raises(AccelError, match=r"this notebook has no .*model"):
        jobs_asked("home", jobs_here()[0].name, bench.ranks.take_home, anyway=True)


@pytest.mark.parametrize("cluster", BEDS, indirect=True)
def test_an_error_of_the_cell_comes_with_its_lines_and_its_rank(cluster):
    source = cell(1, 'assert __import__("os").environ["RANK"] != "1", "rank one stumbles"')
    with opened() as bench, pytest.raises(RankError, match=r"rank 1 of 2.*rank one stumbles") as error:
        bench.ranks.run(source, options(cluster))
    assert "__import__" in error.value.traceback_text
    assert processes_of(cluster.folder) == []


@pytest.mark.parametrize("cluster", BEDS, indirect=True)
def test_a_rank_that_is_killed_is_named_with_what_killed_it(cluster):
    with opened() as bench:
        run = bench.ranks.begin(cell(50, SLOW), options(cluster))
        wait_for_steps(run)
        kill_rank(cluster.folder, rank=1)
        with pytest.raises(RankError, match=r"rank 1 of 2: it ended on .*(SIGKILL|signal 9|Killed)"):
            run.wait(90)
    assert processes_of(cluster.folder) == []


@pytest.mark.parametrize("cluster", ["torchrun", "mpirun", TORCHRUN_ON_HOSTS], indirect=True)
def test_after_a_rank_was_killed_it_goes_on_from_its_checkpoint_with_equal_losses(cluster, tmp_path):
    again = {"checkpoint": str(tmp_path / "checkpoints"), "every": 2, "max_restarts": 1}
    with opened() as bench:
        run = bench.ranks.begin(cell(2, SLOW), options(cluster, **again))
        wait_for_steps(run, 3)
        kill_rank(cluster.folder, rank=1)
        result = run.wait(120)
        assert bench.namespace["losses"] == expected(2)
    assert any("from a checkpoint" in note for note in result.notes)
    assert processes_of(cluster.folder) == []


def test_hosts_that_lose_each_other_are_both_named(hosts, tmp_path):
    with opened() as bench:
        run = bench.ranks.begin(cell(50, SLOW), options(hosts.cluster(str(tmp_path)), timeout_s=5))
        wait_for_steps(run)
        hosts.cut(1)
        try:
            with pytest.raises(
                AccelError, match=rf"network between {hosts.addresses[0]} and {hosts.addresses[1]} is up"
            ):
                run.wait(120)
        finally:
            hosts.mend(1)
    assert processes_of(tmp_path) == []


def test_a_job_that_waits_says_for_what(slurm, tmp_path):
    slurm.ask(
        "sbatch",
        "--job-name",
        "other",
        "--nodes",
        "2",
        "--exclusive",
        "--output",
        "/dev/null",
        "--wrap",
        "sleep 60",
    )
    with opened() as bench:
        run = bench.ranks.begin(cell(1), options(slurm.cluster(str(tmp_path))))
        until = time.monotonic() + 60
        while "nodes to be free" not in run.line:
            assert time.monotonic() < until, run.line
            time.sleep(0.1)
        slurm.ask("scancel", "--name", "other")
        run.wait(90)
        assert bench.namespace["losses"] == expected(1)


def test_a_kernel_that_is_restarted_leaves_its_job_running(tmp_path):
    """Jupyter interrupts a kernel before it ends it."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(120)
        client.execute_interactive("%load_ext accel", timeout=60)
        client.execute_interactive(SETUP, timeout=60)
        client.execute(f"%%accel ddp --launcher torchrun -n 2 --threads 1\n{cell(4, SLOW)}")
        wait_until(lambda: [*tmp_path.glob("accel-jobs/*/ranks/1.jsonl")])
        manager.restart_kernel()
        client.wait_for_ready(120)
        client.execute_interactive("%load_ext accel", timeout=60)
        client.execute_interactive(SETUP, timeout=60)
        (folder,) = (path.parent for path in tmp_path.glob("accel-jobs/*/job.json"))
        reply = client.execute_interactive(
            f"%accel jobs home {folder.name}", user_expressions={"steps": "len(losses)"}, timeout=90
        )  # fmt: skip
        assert reply["content"]["user_expressions"]["steps"]["data"]["text/plain"] == "24", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (tmp_path / "accel-jobs/.gitignore").read_text() == "*\n"
    assert "DISPLAY" not in (folder / "request.json").read_text()


@pytest.mark.parametrize("restarts", [0, 2])
def test_scripts_of_jobs_are_clean(restarts, slurm, hosts, tmp_path):
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    over = hosts.cluster(str(tmp_path))
    more = {"setup": ("module load cuda",), "env": {"NCCL_DEBUG": "a b"}}
    for cluster in (
        Cluster(ranks_per_node=2, **more), over, msgspec.structs.replace(over, launcher="torchrun", options=(), **more),
        msgspec.structs.replace(over, **more), slurm.cluster(str(tmp_path), time="1:00:00", **more),
    ):  # fmt: skip
        folder = JobFolder.make(tmp_path / "my jobs", "train")
        described = JobDescription(
            name=folder.name, asked="", cluster=cluster, ranks=2, began_s=0.0, host="", versions={}, max_restarts=restarts
        )  # fmt: skip
        script = launcher_of(cluster.launcher).script(folder, described)
        done = subprocess.run(["shellcheck", "-"], input=script, text=True, capture_output=True, check=False)
        assert done.stdout == "", script
