"""Binder: what repo2docker makes of binder/, and that its versions are pinned, small, and those that the project allows."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
PINNED = {Requirement(line).name: Requirement(line) for line in LINES if re.match(r"[a-z]", line)}
DEPENDENCIES = [Requirement(each) for each in metadata.requires("accel-workbench") if "extra ==" not in each]


def test_repo2docker_finds_the_files_in_binder(monkeypatch):
    from repo2docker.app import Repo2Docker

    monkeypatch.chdir(ROOT)
    app = Repo2Docker()
    found = next(pack for pack in (kind(app.base_image) for kind in app.buildpacks) if pack.detect())
    assert (type(found).__name__, found.binder_dir, found.python_version) == (
        "PythonBuildPack",
        "binder",
        "3.11",
    )
    assert found.get_post_build_scripts() == ["binder/postBuild"]
    assert found.get_start_script() == "${REPO_DIR}/binder/start"


def test_every_version_is_pinned_and_torch_is_without_cuda():
    assert all(len(each.specifier) == 1 and str(each.specifier).startswith("==") for each in PINNED.values())
    assert {name: str(PINNED[name].specifier).endswith("+cpu") for name in ("torch", "torchvision")} == {
        "torch": True,
        "torchvision": True,
    }
    assert LINES[-1] == "."  # accel itself, from this repository


@pytest.mark.parametrize("needed", DEPENDENCIES, ids=lambda each: each.name)
def test_what_the_project_needs_is_pinned_to_a_version_that_it_allows(needed):
    (pin,) = PINNED[needed.name].specifier
    assert needed.specifier.contains(Version(pin.version).public)


@pytest.mark.parametrize("script", ["postBuild", "start"])
def test_scripts_can_be_run_and_are_correct_shell(script):
    path = ROOT / "binder" / script
    assert path.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(path)]).returncode == 0


def test_start_ends_by_becoming_what_it_was_given():
    assert (ROOT / "binder" / "start").read_text().rstrip().endswith('exec "$@"')
