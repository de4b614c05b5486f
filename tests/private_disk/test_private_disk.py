"""Whatever a trial's cell writes, and however: the user's files stay as they are, and the cell reads what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.private_disk.ways_of_writing import WAYS

PLACES = ("home", "project", "temporary")
# a mechanism, and as whom: root needs no user namespace, everybody else does
MECHANISMS = (
    ("namespace", "whoever runs the tests"),
    ("namespace", "an ordinary user"),
    ("landlock", "an ordinary user"),
    ("python", "whoever runs the tests"),
)
FILES = {
    "here.txt": "as it was",
    "data.bin": "abcdef",
    "removed.txt": "still here",
    "step-0/weights": "1",
    "untouched/read.txt": "yours",
    "removed-too.txt": "yours",
}


def snapshot(folder: Path) -> dict[str, object]:
    """Everything about what lies below a folder, except for what is accel's own or torch's cache."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if (
            any(part == "private" or part.startswith("torchinductor_") for part in path.parts)
            or path == folder / "temporary"
        ):
            continue
        told = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (told.st_mode, told.st_mtime_ns, told.st_ino, content)
    return found


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], tuple[object, ...]]:
    """(mechanism, as whom, place) → (mechanism that held, what each way read back, files before, files after)."""
    asked, users, before = [], {}, {}
    for mechanism, whom in MECHANISMS:
        for place in PLACES:
            root = tmp_path_factory.mktemp("disk")
            folders = {name: root / name for name in ("home", "temporary", "elsewhere", "private")}
            for folder in folders.values():
                folder.mkdir()
            work = (
                folders["home"]
                if place == "home"
                else folders[place.replace("project", "elsewhere")] / "project"
            )
            for name, text in FILES.items():
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                (work / name).write_text(text)
            key = (mechanism, whom, place)
            users[key], before[key] = root, snapshot(root)
            asked.append(
                {
                    "cwd": str(work), "home": str(folders["home"]), "temporary": str(folders["temporary"]),
                    "folder": str(folders["private"]), "mechanism": mechanism, "as": whom,
                }
            )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.private_disk.ways_of_writing", json.dumps(asked)],
        capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        key: (held, read_back, before[key], snapshot(users[key]))
        for key, (held, read_back) in zip(before, answers, strict=True)
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("mechanism", "whom"), MECHANISMS)
def test_no_way_of_writing_reaches_a_file_of_the_users(outcomes, mechanism, whom, place):
    held, read_back, before, after = outcomes[mechanism, whom, place]
    if held is None:
        pytest.skip(f"not to be had here: {read_back['']}")
    assert after == before
    assert held == mechanism
    assert read_back.keys() == WAYS.keys()
    programs = read_back.pop("by a program")
    assert set(read_back.values()) == {"new"}, read_back
    if mechanism == "namespace":
        assert programs == "new"
    elif mechanism == "python":
        assert "no private view of the disk" in programs
        assert "Move that line to a cell of its own" in programs


def test_there_is_a_mechanism_on_this_system_and_doctor_names_it():
    import accel

    part = next(part for part in accel.doctor().parts if part.name == "Private disk")
    assert "your files" in str(part) or "Python's own" in str(part)
    assert os.environ.get("ACCEL_PRIVATE_DISK", "") == ""
