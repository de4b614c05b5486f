"""Files that start a program as a plan was tried: the script by running it, recipes of containers by reading them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from accel.environments.environment import Environment, place, write
from accel.errors import AccelError, UnknownName
from accel.exporting.launcher import launcher
from accel.plans.plan import Plan
from accel.processes.start import Start
from accel.workbench.launching import launcher_for

SHOWS = "import json, os; print(json.dumps(dict(os.environ)))"
AWKWARD = """env_var('ONE="two words" COST=$HOME QUOTE=\\\\"')"""


def started_by(plan: str, tmp_path, **variables: str) -> dict[str, str]:
    script = launcher_for("shell", plan).save(tmp_path / "train.sh")
    assert os.access(script, os.X_OK)
    done = subprocess.run(
        [script, "-c", SHOWS], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


def test_a_script_starts_the_program_with_the_variables_as_they_are(tmp_path):
    assert started_by("omp_wait_policy", tmp_path, OMP_WAIT_POLICY="active")["OMP_WAIT_POLICY"] == "passive"
    found = started_by(AWKWARD, tmp_path / "..")
    assert (found["ONE"], found["COST"], found["QUOTE"]) == ("two words", "$HOME", '"')


def test_a_script_says_which_library_is_gone_where_the_loader_would_go_on(tmp_path, monkeypatch):
    gone = tmp_path / "libgone.so"
    monkeypatch.setattr(Plan, "start", Start(preload=(str(gone),)))
    script = launcher(Plan.parse("omp_wait_policy"), "shell", versions={}).save(tmp_path / "train.sh")
    done = subprocess.run([script, "-c", "print('trained')"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{gone} is not there\n"


def test_recipes_of_containers_have_the_versions_the_packages_and_the_variables(monkeypatch):
    start = Start((("MALLOC_CONF", 'a:"1",b:$2'),), preload=("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",))
    monkeypatch.setattr(Plan, "start", start)
    plan, versions = Plan.parse("omp_wait_policy"), {"torch": "2.8.0+cu128"}
    docker = launcher(plan, "dockerfile", versions=versions).code
    assert "apt-get install --yes --no-install-recommends libjemalloc2" in docker
    assert "/whl/cu128/torch/ torch==2.8.0+cu128" in docker
    assert 'ENV LD_PRELOAD="libjemalloc.so.2"' in docker
    assert r'ENV MALLOC_CONF="a:\"1\",b:\$2"' in docker
    assert docker.index("ctypes.CDLL") < docker.index("ENV LD_PRELOAD"), (
        "a library that is missing ends the build"
    )
    apptainer = launcher(plan, "apptainer", versions=versions)
    assert "export MALLOC_CONF='a:\"1\",b:$2'" in apptainer.code
    assert "not built" in str(apptainer)


def shell_of_dockerfile(code: str) -> list[str]:
    """What its RUN instructions run; every other line is an instruction that Docker knows, or a comment."""
    lines = code.replace("\\\n", " ").splitlines()
    known = ("FROM ", "RUN ", "ENV ", "WORKDIR ", "COPY ", "ENTRYPOINT [", "#")
    assert [line for line in lines if line and not line.startswith(known)] == []
    assert lines[0].startswith("#")
    assert next(line for line in lines if not line.startswith("#")).startswith("FROM ")
    return [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")]


def shell_of_apptainer(code: str) -> list[str]:
    """What its sections for a shell hold; the rest is a header and sections that Apptainer knows."""
    header, *sections = code.split("\n%")
    assert header.splitlines()[:1] == ["Bootstrap: docker"]
    found = dict(section.split("\n", 1) for section in sections)
    assert found.keys() == {"help", "files", "post", "environment", "runscript"}
    return [found[name] for name in ("post", "environment", "runscript")]


@pytest.mark.parametrize(
    "plan", ["allocator", 'allocator("jemalloc")', "omp_wait_policy+openmp_affinity", AWKWARD]
)
def test_what_containers_run_is_a_shell_s_own_language_and_the_file_says_that_it_is_unbuilt(plan):
    if "allocator" in plan and Plan.parse(plan).missing:
        pytest.skip("the library is not installed")
    for form, read in (("dockerfile", shell_of_dockerfile), ("apptainer", shell_of_apptainer)):
        code = launcher_for(form, plan).code
        assert "not built" in code
        for text in read(code):
            subprocess.run(["sh", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("form", ["shell", "dockerfile", "apptainer"])
def test_how_the_workbench_finds_itself_is_in_no_file(form, monkeypatch):
    start = Start(
        (("PYTHONPATH", "/somewhere"), ("A", "1")), python="/env/bin/python", environment="mine"
    ).with_cache(2)
    monkeypatch.setattr(Plan, "start", start)
    code = launcher(Plan.parse("omp_wait_policy"), form, versions={"torch": "2.8.0"}).code
    assert "PYTHONPATH" not in code
    assert "TORCHINDUCTOR" not in code


@pytest.mark.parametrize(
    ("form", "plan", "why"),
    [
        ("shell", None, "none is named"),
        ("shell", "channels_last", "no process has to be started with it"),
        ("shell", "omp_wait_policy+channels_last", "channels_last is no part of how a process starts"),
        ("shell", 'torch_version("2.9")', "No environment here has torch 2.9"),
        (
            "dockerfile",
            "interop_threads",
            r"Its code comes first in the program: .*set_num_interop_threads\(1\)",
        ),
    ],
)
def test_what_cannot_be_written_says_why(form, plan, why, monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_ENVIRONMENTS", str(tmp_path))
    with pytest.raises(AccelError, match=f"(?s){why}"):
        launcher_for(form, plan)


def test_another_form_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'dockerfile'"):
        launcher_for("docker", "omp_wait_policy")


def intel_here(monkeypatch, tmp_path, **versions: str) -> None:
    monkeypatch.setenv("ACCEL_ENVIRONMENTS", str(tmp_path))
    folder = place() / "intel"
    folder.mkdir(parents=True)
    write(Environment("intel", sys.executable, platform.python_version(), versions), folder)


@pytest.mark.parametrize("form", ["dockerfile", "apptainer"])
@pytest.mark.parametrize(("plan", "installed"), [
    ("allocator", "libtcmalloc-minimal4"), ('allocator(kind="jemalloc")', "libjemalloc2"), ("intel_openmp", "intel-openmp"),
])  # fmt: skip
def test_what_a_container_installs_need_not_be_here(plan, installed, form, monkeypatch):
    monkeypatch.setattr("accel.accelerations.allocator.library_file", lambda names: None)
    monkeypatch.setattr("accel.accelerations.intel_openmp.file_in_any", lambda file: None)
    code = launcher_for(form, plan).code
    assert installed in code
    assert "LD_PRELOAD=" in code
    with pytest.raises(AccelError, match=r"not installed here|No environment here"):
        launcher_for("shell", plan)


@pytest.mark.parametrize(("versions", "line"), [
    ({"torch": "2.8.0+cpu", "torchvision": "0.23.0+cpu", "numpy": "2.1.0"},
     "--find-links https://download.pytorch.org/whl/cpu/torch/ --find-links https://download.pytorch.org/whl/cpu/torchvision/ "
     "torch==2.8.0+cpu torchvision==0.23.0+cpu numpy==2.1.0"),
    ({"torch": "2.9.0.dev20250801+rocm6.4"},
     "--find-links https://download.pytorch.org/whl/nightly/rocm6.4/torch/ torch==2.9.0.dev20250801+rocm6.4"),
    ({"torch": "2.8.0"}, "torch==2.8.0"),
    ({"torch": "2.8.0a0+git1234567"}, "torch==2.8.0a0"),
])  # fmt: skip
def test_a_build_for_a_device_is_installed_from_its_page(versions, line):
    for form in ("dockerfile", "apptainer"):
        code = launcher(Plan.parse("omp_wait_policy"), form, versions=versions).code
        assert f"pip install --no-cache-dir {line}\n" in code


def test_what_the_program_has_to_do_itself_stands_in_the_file_that_starts_it(monkeypatch, tmp_path):
    intel_here(monkeypatch, tmp_path, **{"torch": "2.8.0", "intel-extension-for-pytorch": "2.8.0"})
    made = launcher_for("shell", "ipex")
    assert "ipex.optimize(" in made.code
    assert "ipex.optimize(" in made.note
    docker = launcher_for("dockerfile", "omp_wait_policy+interop_threads").code
    assert "set_num_interop_threads(1)" in docker
    assert shell_of_dockerfile(docker)


def test_a_container_gets_what_the_plan_needs_and_not_all_that_the_environment_has(monkeypatch, tmp_path):
    intel_here(monkeypatch, tmp_path, torch="2.99.0", pytest="8")
    code = launcher_for("dockerfile", 'torch_version("2.99")').code
    (line,) = (line for line in code.splitlines() if "pip install" in line)
    assert "torch==" in line
    assert "pytest" not in line
