"""Environments: made as a whole or not at all, one process at a time, listed, shown and removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from accel.environments.asked import environments_asked
from accel.environments.creating import adopt, create
from accel.environments.environment import (
    DESCRIPTION,
    Environment,
    base,
    environments,
    file_in_any,
    place,
    write,
)
from accel.environments.on_disk import cache, unfinished
from accel.environments.recipes import RECIPES, Recipe, recipe
from accel.environments.wanted import find
from accel.errors import AccelError, UnknownName
from tests.environments.wheels import add_wheel, only_from

TINY = Recipe("tiny", ("small",), 1 << 20, "a package alone", ("small",), runs_cells=False)
MAKES_IT = """
import sys
from accel.environments.creating import create
from accel.environments.recipes import Recipe
recipe = Recipe("tiny", ("small",), 1 << 20, "", ("small",), runs_cells=False)
made = create(recipe, say=lambda line: print(line, flush=True))
print("made", made.seconds, flush=True)
"""


@pytest.fixture(autouse=True)
def place_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_ENVIRONMENTS", str(tmp_path / "environments"))
    for name, size_bytes in (("small", 1 << 20), ("large", 8 << 20)):
        add_wheel(tmp_path / "wheels", name, size_bytes=size_bytes)
    only_from(tmp_path / "wheels", monkeypatch)


def in_another_process(**variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    return subprocess.Popen(
        [sys.executable, "-c", MAKES_IT],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_is_made_listed_shown_and_removed():
    said = []
    made = create(TINY, say=said.append)
    assert made.versions == {"small": "1.0"}
    assert environments() == (made,) == (find("tiny"),)
    assert file_in_any("pyvenv.cfg") is not None
    assert any("small" in line for line in said), said
    assert create(TINY) == made, "one that is there is not made again"
    assert "is removed" in environments_asked("remove", "tiny").done
    assert environments() == ()
    assert not (place() / "tiny").exists()
    with pytest.raises(UnknownName, match="there is no environment of that name"):
        find("tiny")


def test_a_second_one_with_the_same_packages_shares_their_files_also_after_another_one_failed():
    create(TINY)
    with pytest.raises(AccelError, match="Nothing of it is left"):
        create(Recipe("none", ("no_such_package",), 0, "", runs_cells=False))
    create(TINY, name="second")
    (file,) = place().glob("second/lib/python*/site-packages/small.py")
    assert file.stat().st_nlink == 3, "the cache's and both environments'"
    environments_asked("remove", "tiny")
    assert [*cache().glob("archive-v*/*/small.py")]
    environments_asked("remove", "second")
    assert not [*cache().glob("archive-v*/*")], "no environment has a file of it any more"
    assert create(TINY).versions


def test_killed_at_five_moments_it_leaves_nothing_that_counts_and_works_the_next_time():
    was_left = []
    for moment in range(5):
        process = in_another_process()
        assert process.stdout is not None
        for _ in range(
            moment
        ):  # each line is a moment of its own: before uv, while it makes the folder, while it installs
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert all(each.name == "tiny" and each.versions for each in environments())
        assert not processes_of_uv(), "uv ends with the process that started it"
        was_left.append(bool(unfinished()))
        for name in unfinished():
            assert f"%accel env remove {name} frees what it takes" in str(environments_asked("list", None))
            environments_asked("remove", name)
        if environments():
            environments_asked("remove", "tiny")
        assert {each.name for each in place().glob("*")} <= {".unfinished"}
    assert any(was_left), "no kill came in the middle of it"
    assert create(TINY).versions


def test_one_that_was_being_made_as_its_removal_was_asked_for_is_removed_once_it_is_there(monkeypatch):
    create(TINY)
    monkeypatch.setattr(
        "accel.environments.on_disk.unfinished", lambda: ("tiny",)
    )  # as it was before the lock was free
    assert "is removed" in environments_asked("remove", "tiny").done
    assert environments() == ()


def test_an_interpreter_that_cannot_be_noted_down_leaves_nothing(monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("accel.environments.creating.write", fails)
    with pytest.raises(AccelError, match="No space left"):
        adopt(sys.executable, name="mine")
    assert (unfinished(), [*place().glob("mine")]) == ((), [])


def test_one_whose_python_is_gone_runs_no_cell(tmp_path):
    gone = Environment("old", str(tmp_path / "bin" / "python"), sys.version.split()[0], {"torch": "2.9.0"})
    assert gone.why_not == "its Python is gone"


def processes_of_uv() -> list[str]:
    """Those that work in the folder of this test; one that is ending has a moment."""
    until = time.monotonic() + 10
    while found := [
        " ".join(process.info["cmdline"] or [])
        for process in psutil.process_iter(["cmdline"])
        if any(str(base()) in word for word in process.info["cmdline"] or [])
    ]:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return found


def test_of_two_at_once_one_makes_it_and_the_other_waits_for_it():
    both = [in_another_process(), in_another_process()]
    printed = [process.communicate()[0] for process in both]
    assert all("made" in text for text in printed), printed
    assert len(environments()) == 1
    assert len({text.split("made ")[1] for text in printed}) == 1, "both give the one that was made"


def test_without_a_network_it_says_why_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv("UV_FIND_LINKS")
    with pytest.raises(AccelError, match="%accel env create tiny"):
        create(TINY)
    assert not (place() / "tiny").exists()
    only_from(tmp_path / "wheels", monkeypatch)
    assert create(TINY).versions


def test_an_interrupt_ends_uv_and_leaves_nothing():
    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create(TINY, say=interrupt)
    assert not (place() / "tiny").exists()
    assert environments() == ()


def test_too_little_room_is_said_before_anything_is_made():
    with pytest.raises(AccelError, match="name another disk with ACCEL_ENVIRONMENTS"):
        create(Recipe("huge", ("small",), 1 << 60, "", runs_cells=False))
    assert not (place() / "huge").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_disk_that_is_full_says_so_and_is_as_empty_as_before(tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, check=False
    ).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        monkeypatch.setenv("ACCEL_ENVIRONMENTS", str(disk))
        with pytest.raises(AccelError, match=r"space|os error 28"):
            create(Recipe("tiny", ("large",), 0, "", ("large",), runs_cells=False))
        assert not (place() / "tiny").exists()
        assert not [*cache().glob("archive-v*/*")]
    finally:
        subprocess.run(["umount", disk], check=False)


def test_an_interpreter_that_exists_is_taken_as_it_is():
    made = adopt(sys.executable, name="own")
    assert made.versions.keys() == {"torch"}
    assert made.why_not == ""
    environments_asked("remove", "own")
    assert os.path.exists(sys.executable)


def test_an_interpreter_that_lacks_something_or_is_none_is_refused(tmp_path):
    create(TINY)
    with pytest.raises(AccelError, match="lacks torch, cloudpickle"):
        adopt(find("tiny").python, name="bare")
    with pytest.raises(AccelError, match="no such program"):
        adopt(str(tmp_path / "no python"), name="none")
    (tmp_path / "no python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "no python").chmod(0o755)
    with pytest.raises(AccelError, match="does not answer"):
        adopt(str(tmp_path / "no python"), name="none")
    assert [each.name for each in environments()] == ["tiny"]


def test_one_of_another_python_runs_no_cell():
    made = create(TINY)
    other = {**vars(made), "python_version": "3.1.4"}
    write(type(made)(**other), place() / "tiny")
    assert "bytecode" in find("tiny").why_not


@pytest.mark.parametrize("text", ["../x", "a/b", "", "-x"])
def test_names_that_would_lead_elsewhere_are_refused(text):
    with pytest.raises(AccelError):
        environments_asked("create", text)
    assert not place().exists()


def test_a_description_that_cannot_be_read_is_passed_over_and_its_folder_stays():
    folder = place() / "tiny"
    folder.mkdir(parents=True)
    for text in ("not json", json.dumps({"name": "tiny"}), json.dumps([1])):
        (folder / DESCRIPTION).write_text(text)
        assert environments() == ()
    with pytest.raises(AccelError, match="Move it away"):
        create(TINY)
    create(TINY, name="other")
    assert (folder / DESCRIPTION).read_text() == "[1]"


def test_folders_of_others_beside_ours_stay_where_they_are(tmp_path):
    kept = tmp_path / "environments" / "mine"
    kept.mkdir(parents=True)
    create(TINY)
    environments_asked("remove", "tiny")
    assert kept.is_dir()


def test_what_one_takes_is_less_where_another_has_the_same_torch():
    intel = Environment("intel", "python", "3.11.2", {"torch": "2.8.0+cu128"}, folder="/somewhere")
    assert "6.8 GiB and some minutes" in recipe("intel").needs(())
    assert "572 MiB and some seconds" in recipe("nni").needs((intel,))
    assert "6.98 GiB" in recipe("nni").needs((replace(intel, versions={"torch": "2.9.1"}),))


@pytest.mark.parametrize(
    ("does", "name", "why"),
    [
        ("remov", None, "Did you mean 'remove'"),
        ("create", None, "needs the name"),
        ("show", "none", "There are none"),
        ("show", "intel", "Make it: %accel env create intel"),
    ],
)
def test_what_is_asked_in_python_is_checked_as_a_line_is(does, name, why):
    with pytest.raises(AccelError, match=why):
        environments_asked(does, name)


def test_recipes_name_versions_of_torch_and_refuse_what_they_do_not_know():
    assert recipe("torch==2.8").requirements == ("torch==2.8.*", "torchvision")
    assert recipe("torch==2.8.0").requirements[0] == "torch==2.8.0"
    assert [recipe(each.name) for each in RECIPES] == list(RECIPES)
    with pytest.raises(UnknownName, match="Did you mean 'intel'"):
        recipe("intell")
