"""Memory, huge pages, nodes and the container's limits, from small trees."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from accel.machine.cgroup import MemoryLimit, cpu_set, memory_limit
from accel.machine.cpu import arm_model, read_cpu
from accel.machine.cpu_tree import read_cpu_tree
from accel.machine.memory import HugePages, NumaNode, read_memory, read_numa_nodes

GIB = 2**30


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def test_this_machine_has_the_memory_that_psutil_counts() -> None:
    if not read_memory().total_bytes:
        pytest.skip("memory is read from /proc/meminfo, which is not here")
    assert read_memory().total_bytes == psutil.virtual_memory().total
    assert read_memory().swap_bytes == psutil.swap_memory().total


def test_swap_and_huge_pages_are_told(tmp_path: Path) -> None:
    write(tmp_path / "proc/meminfo", "MemTotal: 2048 kB\nMemFree: 512 kB\nSwapTotal: 64 kB\nSwapFree: 32 kB")
    write(tmp_path / "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    for size, pages in (("1048576kB", 4), ("2048kB", 0), ("64kB", 1)):
        write(tmp_path / f"sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages", pages)
        write(tmp_path / f"sys/kernel/mm/hugepages/hugepages-{size}/free_hugepages", 0)
    found = read_memory(tmp_path)
    assert (found.total_bytes, found.available_bytes) == (2**21, 2**19)  # older kernels tell no MemAvailable
    assert (found.swap_bytes, found.swap_free_bytes) == (2**16, 2**15)
    assert found.transparent_huge_pages == "madvise"
    assert found.huge_pages == (HugePages(2**16, 1, 0), HugePages(2**21, 0, 0), HugePages(2**30, 4, 0))
    assert [str(pages).split(" reserved")[0] for pages in found.huge_pages] == [
        "1 × 64 KiB",
        "0 × 2 MiB",
        "4 × 1 GiB",
    ]


def test_the_limit_that_leaves_the_least_counts(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    write(tmp_path / "proc/self/cgroup", "0::/pod/container")
    for folder, limit, used in (
        ("", "max", 9 * GIB),
        ("pod", 8 * GIB, 7 * GIB),
        ("pod/container", 4 * GIB, GIB),
    ):
        write(group / folder / "memory.max", limit)
        write(group / folder / "memory.current", used)
    assert memory_limit(tmp_path) == MemoryLimit(8 * GIB, 7 * GIB)
    write(group / "pod/memory.stat", f"anon {GIB}\ninactive_file {6 * GIB}")
    assert memory_limit(tmp_path) == MemoryLimit(4 * GIB, GIB)
    write(group / "pod/container/memory.high", 2 * GIB)  # above it a process is slowed down
    assert memory_limit(tmp_path) == MemoryLimit(2 * GIB, GIB)
    write(group / "pod/container/memory.high", "max")
    assert memory_limit(tmp_path) == MemoryLimit(4 * GIB, GIB)


def test_older_cgroups_tell_limits_too_and_their_largest_number_is_none(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    write(
        tmp_path / "proc/self/cgroup",
        "5:cpuset:/job\n4:memory:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/\n0::/",
    )
    write(tmp_path / "proc/meminfo", f"MemTotal: {32 * 2**20} kB\nMemAvailable: {30 * 2**20} kB")
    write(group / "memory/job/memory.limit_in_bytes", 2**63 - 4096)
    write(group / "cpuset/job/cpuset.cpus", "4-7")
    assert read_memory(tmp_path).limit_bytes is None
    assert read_memory(tmp_path).available_bytes == 30 * GIB
    assert cpu_set(tmp_path) == (4, 5, 6, 7)
    write(group / "memory/job/memory.limit_in_bytes", 16 * GIB)
    write(group / "memory/job/memory.usage_in_bytes", 12 * GIB)
    assert (read_memory(tmp_path).limit_bytes, read_memory(tmp_path).available_bytes) == (16 * GIB, 4 * GIB)


def test_a_host_path_that_the_container_does_not_see_leaves_the_mount_itself(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/../../kubepods/pod1/c2")
    write(tmp_path / "sys/fs/cgroup/memory.max", GIB)
    write(tmp_path / "memory.max", 1)  # the path must not lead out of the mount
    assert memory_limit(tmp_path) == MemoryLimit(GIB, 0)


def test_a_node_may_be_memory_alone_and_numbers_may_be_missing(tmp_path: Path) -> None:
    for number, cpus in ((0, "0-1"), (8, "")):
        write(tmp_path / f"sys/devices/system/node/node{number}/cpulist", cpus)
        meminfo = f"Node {number} MemTotal: 1048576 kB\nNode {number} MemFree: 524288 kB"
        write(tmp_path / f"sys/devices/system/node/node{number}/meminfo", meminfo)
    found = read_numa_nodes(tmp_path, read_cpu_tree(tmp_path))
    assert found == (NumaNode(0, (0, 1), GIB, GIB // 2), NumaNode(8, (), GIB, GIB // 2))
    assert [str(node) for node in found] == ["CPUs 0-1, 0.5 of 1.0 GiB free", "no CPUs, 0.5 of 1.0 GiB free"]


def cores_of(*numbers: tuple[int, int]) -> str:
    return "\n".join(f"CPU implementer\t: {who:#x}\nCPU part\t: {what:#05x}" for who, what in numbers)


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ([(0x41, 0xD0C)] * 4, "Arm Neoverse-N1"),
        ([(0x41, 0xD49)], "Arm Neoverse-N2"),
        ([(0x41, 0xD4F)], "Arm Neoverse-V2"),
        ([(0xC0, 0xAC3)], "Ampere-1"),
        ([(0x61, 0x22), (0x61, 0x23)], "Apple M1 Icestorm + Apple M1 Firestorm"),
        ([(0x61, 0x000)], "Apple part 0x000"),
        ([(0x99, 0x1)], "Arm core of designer 0x99 part 0x001"),
        ([], ""),
    ],
)
def test_arm_cores_are_named_by_their_numbers(numbers, name: str) -> None:
    assert arm_model(cores_of(*numbers)) == name


S390 = (
    "vendor_id       : IBM/S390\n# processors    : 2\nbogomips per cpu: 3241.00\nfeatures\t: esan3 zarch vx\n"
    "processor 0: version = FF,  identification = 0AB1C8,  machine = {machine}\n\ncpu number      : 0\ncpu MHz static  : 5200\n"
)


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\nmodel\t\t: 2.2", "POWER9, altivec supported"),
        ("processor\t: 0\nisa\t\t: rv64imafdc\nuarch\t\t: sifive,u74-mc", "sifive,u74-mc"),
        ("system type\t: generic\nModel Name\t: Loongson-3A5000", "Loongson-3A5000"),
        (f"processor\t: 0\n{cores_of((0x41, 0xD0B))}\nModel\t: Raspberry Pi 5 Model B", "Arm Cortex-A76"),
        ("processor\t: 0\nmodel name\t: \nmodel\t\t: 143", ""),
        (
            "processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdc_zicsr_zifencei\nmmu\t\t: sv39",
            "RISC-V rv64imafdc",
        ),
        ("processor\t: 0\nisa\t\t: rv32imac\nuarch\t\t: \n", "RISC-V rv32imac"),
        (S390.format(machine=8561), "IBM z15 (machine 8561)"),
        (S390.format(machine=9175), "IBM z17 (machine 9175)"),
        (S390.format(machine=9999), "IBM Z (machine 9999)"),
    ],
)
def test_a_processor_has_the_name_that_its_architecture_writes(
    cpuinfo: str, model: str, tmp_path: Path
) -> None:
    write(tmp_path / "proc/cpuinfo", cpuinfo)
    assert read_cpu(tmp_path).model == model
