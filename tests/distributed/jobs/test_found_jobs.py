"""Jobs that a notebook finds: what it lists, what it refuses, and what it takes home."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
import torch

from accel.distributed.cells.model_shapes import shapes_of
from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.found_job import FoundJob
from accel.distributed.jobs.job_folder import JobDescription, JobFolder, Launched
from accel.distributed.jobs.job_run import JobRun
from accel.distributed.jobs.jobs_here import jobs_asked
from accel.distributed.jobs.launchers.here import start_of
from accel.distributed.ranks.rank_messages import RunDone
from accel.distributed.ranks.rank_pool import request_for
from accel.errors import AccelError
from accel.workload.memory_file import MemoryFile


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of one rank that trained a model of two inputs, as its folder has it."""
    monkeypatch.setattr("accel.distributed.jobs.jobs_here.folders", lambda: [tmp_path])
    folder = JobFolder.make(tmp_path, "train")
    names = {"model": torch.nn.Linear(2, 1), "data": [1]}
    memory = MemoryFile()
    memory.seal()
    folder.write_request(
        request_for("cell", names=[*names], shapes=shapes_of(names, names)), b"objects", memory.descriptor
    )
    memory.close()
    folder.write_json("job.json", JobDescription(
        name=folder.name, asked="%%accel ddp", cluster=Cluster(), ranks=1, began_s=time.time(), host="here", versions={},
    ))  # fmt: skip
    return folder


def done() -> RunDone:
    return RunDone(seconds=1.0, first_step_s=None, notes=[], left_behind=[])


def state_of(folder: JobFolder) -> str:
    (row,) = jobs_asked("list", folder.name).rows
    return row.state


def test_a_job_that_was_never_launched_is_listed_and_can_be_removed(job):
    (row,) = jobs_asked("list", None).rows
    assert (row.state, row.because) == ("failed", "it was not launched")
    assert row.size_bytes > 0
    jobs_asked("remove", job.name)
    assert jobs_asked("list", None).rows == ()


def test_a_folder_that_cannot_be_read_says_so_in_its_row_and_hides_no_other(job):
    broken = JobFolder.make(job.path.parent, "other")
    (broken.path / "job.json").write_text("{")
    rows = {row.name: row for row in jobs_asked("list", None).rows}
    assert "it cannot be read" in rows[broken.name].because
    assert len(rows) == 2


def test_a_failed_attempt_is_no_end_while_ranks_are_started_again(job):
    job.write_json(
        "launched.json", Launched(pid=os.getpid(), start=start_of(os.getpid()), host=os.uname().nodename)
    )
    job.write_answer(0, 0, done())
    assert state_of(job) == "done"
    (job.ranks / "0.answer-1000.json").write_bytes(
        (job.ranks / "0.answer-0.json").read_bytes().replace(b"done", b"gone")
    )
    assert "it cannot be read" in jobs_asked("list", job.name).rows[0].because


class Swallowing:
    """Interrupts its own finalizer: what that raises Python prints, and goes on."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_a_finalizer_swallowed_ends_the_wait_for_a_job(job, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: None)
    launched = Launched(pid=os.getpid(), start=start_of(os.getpid()), host=os.uname().nodename)
    job.write_json("launched.json", launched)
    with pytest.raises(KeyboardInterrupt, match="the job goes on"):
        JobRun(job, watch=lambda lanes: Swallowing() and None).go()


def test_a_process_with_the_same_number_that_began_later_is_another(job):
    job.write_json(
        "launched.json", Launched(pid=os.getpid(), start="1 of another start", host=os.uname().nodename)
    )
    assert state_of(job) == "failed"


def test_a_trained_state_that_is_not_home_is_not_removed_by_mistake(job):
    job.write_answer(0, 0, done())
    with pytest.raises(AccelError, match="not home yet"):
        jobs_asked("remove", job.name)
    jobs_asked("remove", job.name, anyway=True)


@pytest.mark.parametrize("model", [torch.nn.Linear(3, 1), torch.nn.Linear(2, 1, bias=False)])
def test_a_state_goes_into_no_other_model(model, job):
    with pytest.raises(
        AccelError, match=r"model is not the model that was trained: its (weight|bias) has the shape"
    ):
        FoundJob(job, {"model": model, "data": [1]})
    assert FoundJob(job, {"model": torch.nn.Linear(2, 1), "data": [1]}).ranks == 1


def test_a_state_that_is_home_already_is_not_put_there_twice_by_mistake(job):
    job.write_answer(0, 0, done())
    job.is_home.touch()
    with pytest.raises(AccelError, match="home already"):
        jobs_asked("home", job.name, lambda folder: "taken")
    assert jobs_asked("home", job.name, lambda folder: "taken", anyway=True) == "taken"
    assert jobs_asked("list", job.name).rows[0].words == "done, at home"


def test_the_end_of_a_long_log_says_where_all_of_it_is(job):
    (job.ranks / "0.txt").write_text("a line of many\n" * 5000)
    job.launcher_output.write_text("said by the launcher")
    logs = jobs_asked("logs", job.name)
    assert [whose for whose, _ in logs.texts] == ["rank 0", "the launcher"]
    first, second = logs.texts[0][1].splitlines()[:2]
    assert str(job.ranks / "0.txt") in first
    assert second == "a line of many"


def test_a_name_that_ends_two_jobs_asks_for_more_of_it(job):
    JobFolder.make(job.path.parent, "train").write_json("job.json", job.description())
    with pytest.raises(AccelError, match="2 jobs are called so"):
        jobs_asked("logs", job.name[:4])
