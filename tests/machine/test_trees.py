"""Machines of every kind, read from copies of their /sys and /proc (tests/machine/trees)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.machine import Machine, read_machine
from accel.machine.affinity import Allocation, allocate, read_cpu_map
from accel.machine.cpu_tree import CpuTree, read_cpu_tree
from accel.machine.hardware import read_hardware
from accel.machine.lscpu import ask_lscpu
from tests.machine.snapshots import check_snapshot
from tests.machine.trees import machines, tree_files

TREES = tree_files.names()
HARDWARE = ("Processor", "Memory", "Unknown")


@pytest.fixture
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tree_files.write_tree(request.param, tmp_path)


def of(name: str, tmp_path: Path) -> Machine:
    return read_machine(root=tree_files.write_tree(name, tmp_path), with_torch=False)


@pytest.mark.parametrize("name", TREES)
def test_what_a_user_reads_of_a_machine_is_as_recorded(name: str, tmp_path: Path) -> None:
    lines = []
    for group, rows in of(name, tmp_path).groups:
        if group in HARDWARE:
            lines += [group, *(f"  {what:<16}  {value}" for what, value in rows), ""]
    check_snapshot(f"machine/{name}.txt", "\n".join(lines))


def test_the_trees_are_the_ones_that_the_script_writes() -> None:
    for machine in machines.MACHINES:
        stored = json.loads((tree_files.HERE / f"{machine.__name__}.json").read_text())
        assert tree_files.expanded(stored) == machines.files(machine())
        assert stored == tree_files.compacted(machines.files(machine()))


@pytest.mark.parametrize("tree", TREES, indirect=True)
def test_a_machine_of_that_tree_reads_as_lscpu_reads_it(tree: Path) -> None:
    if shutil.which("lscpu") is None:
        pytest.skip("there is no lscpu here to compare with")
    answer, ours = ask_lscpu(tree), read_cpu_tree(tree)
    assert answer.why_not == ""
    assert together(answer.tree) == together(ours)
    assert [(cpu.number, cpu.socket) for cpu in answer.tree.cpus] == [
        (cpu.number, cpu.socket) for cpu in ours.cpus
    ]
    assert [cpu.siblings for cpu in answer.tree.cpus] == [cpu.siblings for cpu in ours.cpus]
    assert not ours.nodes or answer.tree.nodes == ours.nodes
    assert read_hardware(tree).cpu.model.endswith(answer.model)


def together(tree: CpuTree) -> list[set[tuple[str, tuple[int, ...]]]]:
    """The caches of each CPU: which one, and who shares it."""
    return [{(cache.name, cache.shared) for cache in cpu.caches} for cpu in tree.cpus]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("this_vm", (2, 2, 1, 1, 1)),
        ("xeon_2_sockets_smt", (128, 64, 2, 2, 2)),
        ("epyc_multi_ccd", (128, 64, 1, 4, 8)),
        ("laptop_p_e_cores", (20, 14, 1, 0, 1)),
        ("arm_server", (64, 64, 1, 1, 1)),
        ("container_with_quota", (16, 8, 1, 1, 1)),
    ],
)
def test_cores_sockets_nodes_and_last_caches_are_counted(name: str, expected, tmp_path: Path) -> None:
    machine = of(name, tmp_path)
    counted = (machine.logical_cores, machine.physical_cores, machine.sockets)
    assert (*counted, len(machine.numa_nodes), len(machine.cache_groups)) == expected


def test_a_container_may_use_what_its_quota_mask_and_memory_limit_leave(tmp_path: Path) -> None:
    machine = of("container_with_quota", tmp_path)
    assert (machine.usable_cores, machine.usable.allowed) == (2, (2, 3, 10, 11))
    assert machine.memory.limit_bytes == 8 * 2**30
    assert machine.available_bytes == 8 * 2**30 - (5 * 2**30 - 3 * 2**29)  # file pages can be given back


def test_economical_cores_are_told_by_the_kernel_or_else_by_their_clock(tmp_path: Path) -> None:
    machine = of("laptop_p_e_cores", tmp_path)
    assert [(kind.name, kind.cores, kind.threads) for kind in machine.core_kinds] == [
        ("fast", 6, 12),
        ("economical", 8, 8),
    ]
    for told in (tmp_path / "sys/devices").glob("cpu_*/cpus"):
        told.unlink()
    assert read_hardware(tmp_path).cpu.core_kinds == machine.core_kinds
    assert read_cpu_map(tmp_path).is_hybrid
    for clock in (tmp_path / "sys/devices/system/cpu").glob("cpu*/cpufreq/cpuinfo_max_freq"):
        clock.unlink()
    assert read_hardware(tmp_path).cpu.core_kinds == ()
    assert not read_cpu_map(tmp_path).is_hybrid


def given_out(name: str, tmp_path: Path, ranks: int, threads: int, *, smt: bool = False) -> Allocation:
    root = tree_files.write_tree(name, tmp_path)
    allowed = read_hardware(root).usable.allowed
    return allocate(ranks, threads, smt=smt, allowed=allowed, cpu_map=read_cpu_map(root))


@pytest.mark.parametrize(
    ("name", "ranks", "threads", "smt", "expected"),
    [
        ("this_vm", 2, 1, False, [(0,), (1,)]),
        ("xeon_2_sockets_smt", 4, 16, False, [range(16), range(16, 32), range(32, 48), range(48, 64)]),
        (
            "xeon_2_sockets_smt",
            2,
            64,
            True,
            [(*range(32), *range(64, 96)), (*range(32, 64), *range(96, 128))],
        ),
        ("epyc_multi_ccd", 8, 8, False, [range(8 * n, 8 * n + 8) for n in range(8)]),
        ("laptop_p_e_cores", 2, 3, False, [(0, 2, 4), (6, 8, 10)]),
        ("arm_server", 2, 32, False, [range(32), range(32, 64)]),
        ("container_with_quota", 2, 1, False, [(2,), (3,)]),
        ("container_with_quota", 1, 4, True, [(2, 3, 10, 11)]),
    ],
)
def test_ranks_get_whole_cores_near_each_other_on_each_machine(
    name, ranks, threads, smt, expected, tmp_path
) -> None:
    found = given_out(name, tmp_path, ranks, threads, smt=smt)
    assert [rank.cpus for rank in found.ranks] == [tuple(cpus) for cpus in expected]
    assert smt or found.notes == ()


def test_what_each_machine_has_more_of_is_warned_of(tmp_path: Path) -> None:
    assert "Fast and economical cores are mixed" in str(given_out("laptop_p_e_cores", tmp_path / "1", 1, 10))
    assert "spans NUMA nodes" in str(given_out("epyc_multi_ccd", tmp_path / "2", 1, 24))


DAMAGED = st.sampled_from(
    ["", "-1", "0-", "-", "7-3", "0-99999999999", "1,,2", "x", "٣", "²", "9" * 40, "\0", "max", "max max", "1 0", "[", ":" * 9]
) | st.text(max_size=30)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["this_vm", "laptop_p_e_cores", "container_with_quota"]), st.data())
def test_missing_and_damaged_files_never_raise(tmp_path_factory, name: str, data: st.DataObject) -> None:
    files = tree_files.expanded(json.loads((tree_files.HERE / f"{name}.json").read_text()))
    chosen = data.draw(st.lists(st.sampled_from(sorted(files)), max_size=12, unique=True))
    files |= {path: data.draw(DAMAGED | st.none()) for path in chosen}
    root = tmp_path_factory.mktemp("damaged")
    for path, text in files.items():
        if text is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(text.encode("utf-8", "surrogatepass"))
    machine = read_machine(root=root, with_torch=False)
    assert str(machine)
    assert json.dumps(machine.to_dict())
    assert machine._repr_mimebundle_()["text/html"]
    assert 0 <= machine.usable_cores <= max(1, machine.logical_cores)
    assert sorted(read_cpu_map(root).by_number) == [cpu.number for cpu in read_cpu_tree(root).cpus]


def test_a_folder_where_a_file_should_be_reads_as_not_known(tmp_path: Path) -> None:
    (tmp_path / "proc/meminfo").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/cpuidle").mkdir(parents=True)
    machine = read_machine(root=tmp_path, with_torch=False)
    assert (machine.logical_cores, machine.memory_bytes) == (0, 0)
    assert dict(machine.unknown)["Memory"] == "/proc tells none"
    assert "Unknown" in str(machine)
