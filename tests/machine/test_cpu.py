"""Reading processors from a copied tree of another machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.machine.cgroup import cpu_quota
from accel.machine.cpu import Cache, cpu_list, parse_cpu_list, read_cpu
from accel.machine.cpu_tree import read_cpu_tree
from accel.machine.usable_cores import UsableCores

CPUINFO = """processor\t: 0
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
flags\t\t: fpu avx2 avx512f avx512_bf16 amx_tile amx_bf16 sse
"""


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    """Two sockets of two cores with two threads each; an L2 for each core, an L3 and a NUMA node for each socket."""
    for cpu in range(8):
        core, socket = cpu % 4 % 2, cpu % 4 // 2
        siblings = f"{cpu % 4},{cpu % 4 + 4}"
        sharing_l3 = "0-1,4-5" if socket == 0 else "2-3,6-7"
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}"
        write(folder / "topology/physical_package_id", socket)
        write(folder / "topology/core_id", core)
        for index, (level, kind, size, sharers) in enumerate(
            [
                (1, "Data", "48K", siblings),
                (2, "Unified", "2048K", siblings),
                (3, "Unified", "105M", sharing_l3),
            ]
        ):
            cache = folder / f"cache/index{index}"
            write(cache / "level", level)
            write(cache / "type", kind)
            write(cache / "size", size)
            write(cache / "shared_cpu_list", sharers)
    write(tmp_path / "sys/devices/system/cpu/cpufreq/policy0", "")
    write(tmp_path / "sys/devices/system/node/node0/cpulist", "0-1,4-5")
    write(tmp_path / "sys/devices/system/node/node1/cpulist", "2-3,6-7")
    write(tmp_path / "proc/cpuinfo", CPUINFO)
    return tmp_path


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def test_cores_sockets_and_nodes_are_counted_with_threads_told_apart(two_sockets: Path) -> None:
    cpu = read_cpu(two_sockets)
    assert (cpu.logical_cores, cpu.physical_cores, cpu.sockets) == (8, 4, 2)
    assert cpu.cores == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert read_cpu_tree(two_sockets).nodes == ((0, (0, 1, 4, 5)), (1, (2, 3, 6, 7)))


def test_a_shared_cache_counts_once(two_sockets: Path) -> None:
    assert read_cpu(two_sockets).caches == (
        Cache("L1d", 48 * 2**10, 4), Cache("L2", 2 * 2**20, 4), Cache("L3", 105 * 2**20, 2),
    )  # fmt: skip


def test_model_and_the_instruction_sets_of_interest_come_from_cpuinfo(two_sockets: Path) -> None:
    cpu = read_cpu(two_sockets)
    assert cpu.model == "Intel(R) Xeon(R) Platinum 8480+"
    assert cpu.isa == ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16")


def test_an_arm_processor_tells_its_features(tmp_path: Path) -> None:
    write(tmp_path / "proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm")
    assert read_cpu(tmp_path).isa == ("asimd", "sve", "bf16", "i8mm")


def test_an_offline_processor_is_not_counted(two_sockets: Path) -> None:
    write(two_sockets / "sys/devices/system/cpu/cpu7/online", 0)
    assert read_cpu(two_sockets).logical_cores == 7


def test_a_system_that_tells_nothing_reads_as_nothing(tmp_path: Path) -> None:
    cpu = read_cpu(tmp_path)
    assert (cpu.model, cpu.logical_cores, cpu.caches, cpu.cores) == ("", 0, (), ())
    assert cpu_quota(tmp_path) is None


def test_the_tightest_quota_on_the_way_up_counts(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/pod/container")
    write(tmp_path / "sys/fs/cgroup/cpu.max", "max 100000")
    write(tmp_path / "sys/fs/cgroup/pod/cpu.max", "150000 100000")
    write(tmp_path / "sys/fs/cgroup/pod/container/cpu.max", "400000 100000")
    assert cpu_quota(tmp_path) == 1.5


def test_the_quota_of_the_older_cgroups_is_read_too(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n0::/")
    write(tmp_path / "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", 200000)
    write(tmp_path / "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", 100000)
    write(tmp_path / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1)
    assert cpu_quota(tmp_path) == 2.0


def test_a_quota_caps_the_usable_cores_and_leaves_at_least_one() -> None:
    assert UsableCores(4, (0, 1, 2, 3), quota_cores=0.2).count == 1
    assert UsableCores(4, (0, 1, 2, 3), quota_cores=1.5).count == 2
    assert UsableCores(4, (0, 1, 2, 3), quota_cores=10_000).count == UsableCores(4).count == 4


def test_it_says_which_limit_leaves_so_few_cores() -> None:
    whole = tuple(range(64))
    assert str(UsableCores(64, whole)) == "64 usable of 64"
    assert str(UsableCores(64, whole, 1.5)) == "2 usable of 64: the container's quota of 1.5 cores"
    assert str(UsableCores(64, (4, 5, 6))) == "3 usable of 64: this process is confined to CPUs 4-6"
    assert (
        str(UsableCores(64, (4, 5), 8.0, (4, 5))) == "2 usable of 64: the container is confined to CPUs 4-5"
    )
    both = "1 usable of 64: the container's quota of 1 core, on CPUs 4-5"
    assert str(UsableCores(64, (4, 5), 1.0, (4, 5))) == both


@given(st.sets(st.integers(0, 500)))
def test_a_cpu_list_gives_back_the_numbers_written_in_it(numbers: set[int]) -> None:
    assert parse_cpu_list(",".join(map(str, sorted(numbers)))) == tuple(sorted(numbers))


@given(st.sets(st.integers(0, 500)))
def test_a_cpu_list_is_written_as_it_is_read(numbers: set[int]) -> None:
    assert parse_cpu_list(cpu_list(sorted(numbers))) == tuple(sorted(numbers))


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_range_in_a_cpu_list_includes_both_ends(first: int, length: int) -> None:
    assert parse_cpu_list(f"{first}-{first + length}") == tuple(range(first, first + length + 1))
