"""Folders that a kernel owns: gone when it lets go of them, gone with the next kernel where it was killed, never before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from accel.errors import AccelError
from accel.private_disk.removal import remove_tree
from accel.processes import kernel_folder
from accel.processes.kernel_folder import KernelFolder, remove_abandoned

KERNEL = """
import multiprocessing.util, os, time
from accel.processes.kernel_folder import KernelFolder, own_kernel_folder
own_kernel_folder()
open(os.path.join(KernelFolder("trial").path, "large"), "w").write("x")
assert "accel-kernel-" in multiprocessing.util.get_temp_dir()  # and no pymp-* anywhere
print(flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """A folder for temporary files of its own, in which no folder is too young to be removed."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(kernel_folder, "_SETTLED_S", 0.0)
    return folder


def test_what_a_killed_kernel_left_goes_with_the_next_one_and_what_a_live_one_holds_stays(temporary):
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, env=environment) as kernel:
        assert kernel.stdout is not None
        kernel.stdout.readline()
        assert {name.rpartition("-")[0] for name in os.listdir(temporary)} == {"accel-kernel", "accel-trial"}
        remove_abandoned("trial", "kernel")
        assert len(os.listdir(temporary)) == 2  # it lives
        kernel.kill()
    remove_abandoned("rank")
    assert len(os.listdir(temporary)) == 2  # of other kinds
    remove_abandoned("trial", "kernel")
    assert os.listdir(temporary) == []


def test_a_folder_goes_with_all_that_a_cell_or_overlayfs_left_in_it_and_with_nothing_else(
    temporary, tmp_path
):
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o750)
    (mine / "file").write_text("kept")
    folder = KernelFolder("trial")
    inner = Path(folder.path, "work", "work")
    inner.mkdir(parents=True)
    (inner / "link").symlink_to(mine)
    (inner / "file").write_text("")
    inner.chmod(0)
    inner.parent.chmod(0o500)
    folder.close()
    folder.close()
    assert os.listdir(temporary) == []
    assert (mine / "file").read_text() == "kept"
    assert mine.stat().st_mode & 0o777 == 0o750


def test_removing_what_is_gone_changes_nothing_above_it(temporary):
    before = temporary.stat().st_mode
    remove_tree(str(temporary / "never-there"))
    assert temporary.stat().st_mode == before


def test_without_a_folder_for_temporary_files_an_error_says_what_to_do(temporary):
    temporary.rmdir()
    with pytest.raises(AccelError, match="set TMPDIR"):
        KernelFolder("trial")


def test_a_process_that_was_forked_removes_its_own_folders_and_no_other(temporary):
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert os.listdir(temporary) == []


FORKED = """
import os
from accel.processes.kernel_folder import KernelFolder
mine = KernelFolder("trial")
if pid := os.fork():
    assert os.waitpid(pid, 0)[1] == 0
    assert os.listdir(os.path.dirname(mine.path)) == [os.path.basename(mine.path)]
else:
    own = KernelFolder("peaks")
"""


def test_multiprocessing_gets_a_new_folder_where_its_own_was_removed(temporary):
    done = subprocess.run(
        [sys.executable, "-c", REMOVED],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


REMOVED = """
import multiprocessing.util, os, shutil
from accel.processes.kernel_folder import own_kernel_folder
shutil.rmtree(own_kernel_folder().path)
assert own_kernel_folder().path == multiprocessing.util.get_temp_dir()
assert os.path.isdir(multiprocessing.util.get_temp_dir())
"""
