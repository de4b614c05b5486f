"""What is asked where /sys and /proc do not tell: lscpu, then psutil; and what is said of it."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from accel.machine.cpu import Cpu
from accel.machine.hardware import Hardware, read_hardware
from accel.machine.lscpu import ask_lscpu

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="lscpu is a program of Linux")


def lscpu_that_says(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The only lscpu on PATH."""
    program = folder / "bin/lscpu"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def without_sys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str = "linux") -> Hardware:
    """This machine's hardware, read where neither /sys nor /proc is."""
    monkeypatch.setattr(sys, "platform", system)
    return read_hardware(tmp_path / "nothing", ask_others=True)


@on_linux
def test_lscpu_tells_what_sys_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ask_lscpu().why_not:
        pytest.skip(ask_lscpu().why_not)
    found, here = without_sys(tmp_path, monkeypatch), read_hardware()
    assert (found.cpu.cores, found.cpu.caches, found.cpu.sockets) == (
        here.cpu.cores,
        here.cpu.caches,
        here.cpu.sockets,
    )
    assert (found.cpu.model, found.cpu.isa) == (here.cpu.model, here.cpu.isa)
    assert dict(found.unknown)["Sockets, cores, caches"] == "not in /sys; from lscpu"
    assert dict(found.unknown)["Memory"] == "not reported by /proc; from psutil"


def older_lscpu(caches: str) -> str:
    """A script that answers as before util-linux 2.34; `caches` is what it does when it is asked for their sizes."""
    rows = ['{"cpu": 0, "core": 0, "socket": 0, "node": -, "l1d:l1i:l2:l3": "0:0:0:0", "online": "yes"}']
    rows += ['{"cpu": 1, "core": 0, "socket": 0, "node": -, "l1d:l1i:l2:l3": "0:0:0:0", "online": "yes"}']
    rows += ['{"cpu": 2, "core": "-", "socket": null, "node": -, "l1d:l1i:l2:l3": null, "online": "no"}']
    summary = '{"lscpu": [{"field": "Vendor ID:", "data": "A", "children": [{"field": "Model name:", "data": "B"}]}]}'
    return f"""
case "$*" in
  *--extended*) echo '{{"cpus": [{",".join(rows)}]}}';;
  *--caches*) {caches};;
  *) echo '{summary}';;
esac"""


@on_linux
def test_an_older_lscpu_that_writes_no_valid_json_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = '{"caches": [{"name": "L3", "one-size": "1048576"}, {"name": "L2", "one-size": null}]}'
    lscpu_that_says(tmp_path, monkeypatch, older_lscpu(f"echo '{sizes}'"))
    answer = ask_lscpu()
    assert (answer.why_not, answer.model) == ("", "B")
    assert [(cpu.number, cpu.siblings) for cpu in answer.tree.cpus] == [(0, (0, 1)), (1, (0, 1))]
    assert [(cache.name, cache.size_bytes) for cache in answer.tree.cpus[0].caches][2:] == [
        ("L2", 0),
        ("L3", 2**20),
    ]
    assert answer.tree.nodes == ()


@on_linux
@pytest.mark.parametrize(
    "caches",
    [
        """echo "lscpu: unrecognized option '--caches=NAME,ONE-SIZE'" >&2; exit 1""",
        "echo 'NAME ONE-SIZE'",
        "echo '[1]'",
        """echo '{"caches": null}'""",
        "kill -9 $$",
    ],
)
def test_an_lscpu_that_tells_no_sizes_of_caches_tells_all_else(
    caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lscpu_that_says(tmp_path, monkeypatch, older_lscpu(caches))
    answer = ask_lscpu()
    assert (answer.why_not, answer.model) == ("", "B")
    assert [(cache.name, cache.size_bytes) for cache in answer.tree.cpus[0].caches] == [
        ("L1d", 0), ("L1i", 0), ("L2", 0), ("L3", 0),
    ]  # fmt: skip
    cpu = without_sys(tmp_path, monkeypatch).cpu
    assert (cpu.model, cpu.sockets, cpu.cores, cpu.cache_groups, cpu.caches) == (
        "B", 1, ((0, 1),), ((0, 1),), (),
    )  # fmt: skip


@on_linux
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'cannot open /proc/cpuinfo' >&2; exit 1", "non-zero exit status 1"),
        ("echo 'Architecture: x86_64'", "Expecting value"),
        ("echo '[]'", ""),
        ('echo \'{"lscpu": 3, "cpus": {"a": 1}, "caches": [4]}\'', ""),
        (None, "no lscpu on PATH"),
    ],
)
def test_psutil_counts_where_lscpu_fails_too(
    script, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", "")
    else:
        lscpu_that_says(tmp_path, monkeypatch, script)
    found = without_sys(tmp_path, monkeypatch)
    assert found.cpu.logical_cores == psutil.cpu_count()
    assert found.usable.count == len(psutil.Process().cpu_affinity())
    assert found.memory.total_bytes == psutil.virtual_memory().total
    assert dict(found.unknown)["Cores"] == "not reported by /sys; counted by psutil"
    assert why in dict(found.unknown)["Sockets, cores"]


@pytest.mark.parametrize(("system", "name"), [("darwin", "macOS"), ("win32", "Windows")])
def test_other_systems_are_counted_by_psutil_and_say_so(system, name, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    if system == "darwin":  # it has no affinity masks
        monkeypatch.delattr(psutil.Process, "cpu_affinity", raising=False)
    found = without_sys(tmp_path, monkeypatch, system)
    unknown = dict(found.unknown)
    assert unknown["Cores"] == f"not reported by {name}; counted by psutil"
    assert unknown["Memory"] == f"not reported by {name}; from psutil"
    assert ("Affinity mask" in unknown) == (system == "darwin")
    assert found.usable.count >= 1
    assert found.cpu.model


def test_psutil_may_fail_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed() -> None:
        raise PermissionError("/proc is closed")

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(psutil, "virtual_memory", closed)
    unknown = dict(without_sys(tmp_path, monkeypatch).unknown)
    assert unknown["Cores or memory"] == "not reported by /proc, and psutil failed: /proc is closed"


def test_a_copied_tree_is_not_mixed_with_this_machine(tmp_path: Path) -> None:
    found = read_hardware(tmp_path)
    assert found.cpu == Cpu()
    assert (found.usable.count, found.memory.total_bytes, found.load_average) == (0, 0, None)
