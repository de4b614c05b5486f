"""Two notebooks that measure at once learn of each other; what a killed one left counts for nothing."""

from __future__ import annotations

import os
import subprocess
import sys

from accel.machine.others_measuring import OthersMeasuring

OTHER = """
import sys
from accel.machine.others_measuring import OthersMeasuring
with OthersMeasuring(sys.argv[1]) as others:
    print("measures", flush=True)
    sys.stdin.readline()
    others.look()
    print(others.line, flush=True)
"""


def another(folder):
    return subprocess.Popen(
        [sys.executable, "-c", OTHER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )


def test_both_are_told_and_a_killed_one_is_forgotten(tmp_path):
    with another(tmp_path) as other, OthersMeasuring(tmp_path) as ours:
        assert other.stdout.readline() == "measures\n"
        ours.look()
        assert f"process {other.pid}, in {tmp_path}" in ours.line
        other.stdin.write("\n")
        other.stdin.flush()
        assert f"process {os.getpid()}" in other.stdout.readline()
    with another(tmp_path) as killed:
        killed.stdout.readline()
        killed.kill()
        killed.wait()
    with OthersMeasuring(tmp_path) as ours:
        assert ours.line == ""
    assert list(tmp_path.iterdir()) == []


def test_one_alone_says_nothing_and_leaves_nothing(tmp_path):
    with OthersMeasuring(tmp_path) as first, OthersMeasuring(tmp_path) as second:
        first.look()
    assert (first.line, second.line) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_somebody_put_there_is_nobody_and_nothing_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "accel-measuring-1-abcdefgh", 0o666)
    with OthersMeasuring(tmp_path) as ours:
        assert ours.line == ""


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path):
    with OthersMeasuring(tmp_path / "missing") as others:
        assert others.line == ""


def test_a_notebook_in_a_deleted_folder_leaves_nothing(tmp_path, monkeypatch):
    gone, seen = tmp_path / "gone", tmp_path / "seen"
    gone.mkdir()
    seen.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with OthersMeasuring(seen):
        assert len(list(seen.iterdir())) == 1
    assert list(seen.iterdir()) == []
