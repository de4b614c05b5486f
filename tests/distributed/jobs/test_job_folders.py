"""What lies in a job's folder, and what of it is believed."""

from __future__ import annotations

import os

import pytest

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.jobs.job_folder import JobFolder
from accel.distributed.ranks.rank_messages import RunDone, RunFailed
from accel.distributed.ranks.rank_pool import request_for
from accel.errors import AccelError
from accel.processes.failure import Failed
from accel.workload.memory_file import MemoryFile


@pytest.fixture
def folder(tmp_path):
    return JobFolder.make(tmp_path / "accel-jobs", "train")


def written(folder: JobFolder) -> MemoryFile:
    memory = MemoryFile()
    memory.add_bytes(b"tensors")
    memory.seal()
    request = request_for("cell", source="train()", filename="<cell>", options=RunOptions(batch="global"))
    folder.write_request(request, b"objects", memory.descriptor)
    return memory


def test_what_was_written_is_read_and_a_person_can_read_it_too(folder):
    written(folder).close()
    assert folder.request().options.batch == "global"
    assert folder.blob() == b"objects"
    assert bytes(folder.memory().view(0, 7)) == b"tensors"
    assert (folder.path / "cell.py").read_text() == "train()"
    assert '"source": "train()"' in (folder.path / "request.json").read_text()


def test_nobody_else_may_look_into_it(folder):
    written(folder).close()
    for path in (folder.path, *folder.path.rglob("*")):
        assert os.stat(path).st_mode & 0o077 == 0, path


@pytest.mark.parametrize("name", ["objects.bin", "ranks/0.home.bin"])
def test_a_pickle_that_was_changed_is_not_read(folder, name):
    memory = written(folder)
    folder.write_answer(0, 0, RunDone(1.0, None, [], []), b"home", memory)
    file = folder.path / name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(AccelError, match="its seal is not that of this job"):
        folder.blob() if name == "objects.bin" else folder.home(0)


def test_a_pickle_of_another_job_or_under_another_name_is_not_read(folder, tmp_path):
    written(folder).close()
    other = JobFolder.make(tmp_path / "accel-jobs", "train")
    written(other).close()
    (folder.path / "objects.bin").write_bytes((other.path / "objects.bin").read_bytes())
    with pytest.raises(AccelError, match="its seal"):
        folder.blob()


@pytest.mark.parametrize("name", [".", "ranks", "key"])
def test_where_others_may_write_nothing_is_read(folder, name):
    written(folder).close()
    (folder.path / name).chmod(0o770)
    with pytest.raises(AccelError, match="others than you may write there"):
        folder.blob()


def test_of_the_latest_attempt_the_answers_count(folder):
    failed = RunFailed(Failed("ValueError", "no", ""), is_communication=False, is_clean=False)
    folder.write_answer(0, 0, failed)
    folder.write_answer(1, 0, failed)
    folder.write_answer(1, 1, RunDone(1.0, None, [], []))
    attempt, answers = folder.answers()
    assert (attempt, [*answers], type(answers[1])) == (1, [1], RunDone)


def test_a_folder_that_cannot_be_made_says_where_and_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AccelError, match=r"does not take one.*folder = in accel.toml"):
        JobFolder.make(tmp_path / "file" / "jobs", "train")
