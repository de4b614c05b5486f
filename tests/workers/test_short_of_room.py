"""Few open files, small files, a full disk: each command says so in words or works, loses nothing, and works again afterwards."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

WORDS = {
    "descriptors": ("open files", "ulimit -n"),
    "sizes": ("limit on its size", "ulimit -f"),
    "disk": ("disk is full", "No space left", "room"),
}
OWN_DISK = "mount -t tmpfs -o size=2m tmpfs {folder} && exec {command}"


def commands_short_of(kind, folder):
    command = [sys.executable, "-m", "tests.workers.under_limits", kind, str(folder)]
    if kind == "disk":
        script = OWN_DISK.format(folder=shlex.quote(str(folder)), command=shlex.join(command))
        command = ["unshare", "-Urm", "sh", "-c", script]
        if subprocess.run(
            [*command[:2], "mount", "-t", "tmpfs", "tmpfs", str(folder)], check=False
        ).returncode:
            pytest.skip("no mount namespace here")
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["descriptors", "disk", pytest.param("sizes", marks=pytest.mark.whole)])
def test_commands_that_are_short_of_files_or_room_say_so_lose_nothing_and_work_again(kind, tmp_path):
    found = commands_short_of(kind, tmp_path)
    for each in found["short"]:
        if "words" in each:
            assert any(word in each["words"] for word in WORDS[kind]), each
            assert "Traceback" not in each["words"], each
            assert not each["trained"], each
        else:
            assert each["trained"] == (each["command"] != "try_"), each
    assert any("words" in each or each["notes"] for each in found["short"])
    assert [each["trained"] for each in found["again"]] == [True, False, True, True], found["again"]
    assert not any("words" in each for each in found["again"]), found["again"]
    ours = [
        each for each in (*found["short"], *found["again"]) if each["command"] != "profile"
    ]  # torch's can keep a pipe
    assert [(each["command"], each["left_open"]) for each in ours if each["left_open"]] == []
    assert found["left"] == []
