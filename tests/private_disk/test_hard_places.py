"""Where a view of the disk is hard to have, the user's files stay as they are all the same, and the mechanism is named truly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.private_disk.hard_places import KINDS
from tests.private_disk.ways_of_writing import SETFCAP

MECHANISMS = dict.fromkeys(KINDS, ("",)) | dict.fromkeys(
    ["on a disk in run", "in shared memory"], ("", "landlock", "python")
)
NOT_IN_A_NAMESPACE = ("where no overlay can be laid", "with such a temporary folder")
FOLLOWS = """
import os, subprocess, sys
from accel.private_disk import namespace_view
place = sys.argv[1]
subprocess.run(["mount", "--make-rshared", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
reads, writes = os.pipe()
answers, says = os.pipe()
if os.fork() == 0:
    namespace_view.begin()
    os.write(says, b"ready")
    os.read(reads, 1)
    os.write(says, b"mounted" if os.path.ismount(place) else b"gone")
    os._exit(0)
assert os.read(answers, 10) == b"ready"
subprocess.run(["umount", place], check=True)
os.write(writes, b"x")
print(os.read(answers, 10).decode())
"""
NOBODY = """
import builtins, os
from accel.private_disk import namespace_view
own = builtins.open
def refusing(name, *rest, **more):
    if "setgroups" in str(name):
        raise PermissionError(13, "as AppArmor does")
    return own(name, *rest, **more)
builtins.open = refusing
user = os.getuid()
try:
    namespace_view._unshare_as_user()
except namespace_view.NoView as reason:
    print(reason, os.getuid() == user)
"""


def _as(kind: str) -> tuple[str, ...]:
    """In a user namespace Linux itself refuses an overlay that would hide a mount."""
    return () if "ascii" in kind else ("unprivileged",)


def in_mounts_of_its_own(*words: str) -> str:
    """What the program prints; as root only, who may mount."""
    if sys.platform != "linux" or os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("takes root's right to mount")
    done = subprocess.run(
        ["unshare", "-m", sys.executable, *words],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("kind", "mechanism"), [(kind, each) for kind in KINDS for each in MECHANISMS[kind]])
def test_a_cell_in_a_hard_place_reads_what_it_wrote_and_the_users_file_stays(tmp_path, kind, mechanism):
    found = json.loads(
        in_mounts_of_its_own(
            "-m", "tests.private_disk.hard_places", str(tmp_path), kind, mechanism, *_as(kind)
        )
    )
    assert "failed" not in found, found
    assert found["after"] == "yours"
    assert set(found["files"]) <= {"model.pt", "data"}
    if _as(kind) and mechanism != "python":
        assert int(found["rights"], 16) & ~SETFCAP == 0  # none of those that a user namespace gives
    assert found["read back"] == "trial's, new, new"
    assert not Path(tempfile.gettempdir(), "accel-of-a-hard-place").exists()
    assert found["built"] == ("" if found["held"] == "python" else "kernel.o")
    if mechanism:
        assert found["held"] == mechanism
    else:
        assert (found["held"] == "namespace") == (kind not in NOT_IN_A_NAMESPACE)
    if "ascii" in kind:
        assert found["data"] == "1000"


def test_who_may_make_a_user_namespace_but_not_be_somebody_in_it_stays_who_they_are():
    if sys.platform != "linux":
        pytest.skip("only Linux has user namespaces")
    said = subprocess.run(
        [sys.executable, "-c", NOBODY], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.startswith("user namespaces are not allowed")
    assert said.stdout.endswith("True\n")


def test_a_disk_that_the_user_takes_out_is_let_go_of_by_processes_that_wait_for_a_trial(tmp_path):
    assert in_mounts_of_its_own("-c", FOLLOWS, str(tmp_path)) == "gone"
