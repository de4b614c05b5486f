"""CPUs of recorded kinds of machines, who gets which, and where threads really are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel.cli import main
from accel.errors import AccelError
from accel.machine.affinity import Affinity, CpuMap, LogicalCpu, RankCpus, allocate, read_cpu_map
from accel.machine.affinity.thread_places import ThreadPlace, read_threads
from accel.machine.usable_cores import read_usable_cores
from accel.processes.starting_mask import (
    BINDING,
    _openmp_libraries,
    _openmp_places,
    binding_variables,
    starting_mask,
)
from tests.machine.snapshots import check_snapshot
from tests.machine.trees import tree_files

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="threads are read from /proc")


def write_tree(root: Path, cpus: list[LogicalCpu]) -> None:
    """A /sys as the kernel would show these CPUs."""
    nodes: dict[int, list[int]] = {}
    for cpu in cpus:
        folder = root / f"sys/devices/system/cpu/cpu{cpu.number}"
        sharing = [other.number for other in cpus if other.cache_group == cpu.cache_group]
        write(folder / "topology/core_id", cpu.core)
        write(folder / "topology/physical_package_id", cpu.socket)
        write(folder / "topology/thread_siblings_list", ",".join(map(str, cpu.siblings)))
        write(folder / "cache/index3/level", 3)
        write(folder / "cache/index3/shared_cpu_list", ",".join(map(str, sharing)))
        if cpu.speed:
            write(folder / "cpufreq/cpuinfo_max_freq", cpu.speed)
        nodes.setdefault(cpu.numa_node, []).append(cpu.number)
    for node, numbers in nodes.items():
        write(root / f"sys/devices/system/node/node{node}/cpulist", ",".join(map(str, numbers)))


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def virtual_machine() -> list[LogicalCpu]:
    return [LogicalCpu(n, core=n, siblings=(n,)) for n in range(2)]


def two_socket_xeon() -> list[LogicalCpu]:
    """Two sockets of four cores with two threads each; the second threads come last."""
    return [
        LogicalCpu(n, n % 4, n % 8 // 4, n % 8 // 4, (n % 8, n % 8 + 8), cache_group=n % 8 // 4 * 4)
        for n in range(16)
    ]


def amd_of_chiplets() -> list[LogicalCpu]:
    """One socket, one node, four chiplets of two cores with a last cache each."""
    return [LogicalCpu(n, core=n, siblings=(n,), cache_group=n // 2 * 2) for n in range(8)]


def laptop() -> list[LogicalCpu]:
    """Two fast cores with two threads each (0–3), four economical ones (4–7)."""
    fast = [LogicalCpu(n, n // 2, siblings=(n // 2 * 2, n // 2 * 2 + 1), speed=5_000_000) for n in range(4)]
    return [*fast, *(LogicalCpu(n, n, siblings=(n,), speed=3_800_000) for n in range(4, 8))]


def arm_server() -> list[LogicalCpu]:
    """Eight cores of one thread in two nodes; it tells no clock and has no last cache in common."""
    return [LogicalCpu(n, core=n, numa_node=n // 4, siblings=(n,), cache_group=n) for n in range(8)]


MACHINES = [virtual_machine, two_socket_xeon, amd_of_chiplets, laptop, arm_server]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_tree_is_read_as_it_was_written(machine, tmp_path) -> None:
    write_tree(tmp_path, machine())
    assert read_cpu_map(tmp_path).cpus == tuple(machine())


@pytest.mark.parametrize(
    ("machine", "ranks", "threads", "smt", "expected"),
    [
        (virtual_machine, 2, 1, False, [(0,), (1,)]),
        (two_socket_xeon, 2, 4, False, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (two_socket_xeon, 4, 2, False, [(0, 1), (2, 3), (4, 5), (6, 7)]),
        (two_socket_xeon, 2, 6, True, [(0, 1, 2, 3, 8, 9), (4, 5, 6, 7, 12, 13)]),
        (amd_of_chiplets, 4, 2, False, [(0, 1), (2, 3), (4, 5), (6, 7)]),
        (laptop, 1, 2, False, [(0, 2)]),
        (laptop, 1, 6, False, [(0, 2, 4, 5, 6, 7)]),
        (arm_server, 2, 3, False, [(0, 1, 2), (4, 5, 6)]),
    ],
)
def test_ranks_get_cores_of_their_own_near_each_other(machine, ranks, threads, smt, expected) -> None:
    cpu_map = CpuMap(tuple(machine()))
    found = allocate(ranks, threads, smt=smt, allowed=list(cpu_map.by_number), cpu_map=cpu_map)
    assert [rank.cpus for rank in found.ranks] == expected


@given(st.sampled_from(MACHINES), st.integers(1, 8), st.integers(1, 8), st.booleans(), st.data())
def test_no_two_ranks_share_a_cpu_and_none_is_outside_the_mask(machine, ranks, threads, smt, data) -> None:
    cpu_map = CpuMap(tuple(machine()))
    allowed = data.draw(st.lists(st.sampled_from(list(cpu_map.by_number)), min_size=1, unique=True))
    if ranks * threads > (len(allowed) if smt else len(cpu_map.cores_of(allowed))):
        with pytest.raises(AccelError, match="Use at most"):
            allocate(ranks, threads, smt=smt, allowed=allowed, cpu_map=cpu_map)
        return
    found = allocate(ranks, threads, smt=smt, allowed=allowed, cpu_map=cpu_map)
    given_out = [cpu for rank in found.ranks for cpu in rank.cpus]
    assert len(given_out) == len(set(given_out)) == ranks * threads
    assert set(given_out) <= set(allowed)
    assert smt or len(cpu_map.cores_of(given_out)) == len(given_out)


def test_what_is_not_as_one_would_wish_is_said() -> None:
    xeon, mixed = CpuMap(tuple(two_socket_xeon())), CpuMap(tuple(laptop()))
    whole = list(xeon.by_number)
    assert "Rank 0 spans NUMA nodes" in str(allocate(1, 8, allowed=whole, cpu_map=xeon))
    assert "share a core" in str(allocate(1, 16, smt=True, allowed=whole, cpu_map=xeon))
    assert "Fast and economical cores are mixed" in str(
        allocate(1, 6, allowed=list(mixed.by_number), cpu_map=mixed)
    )


def test_each_openmp_is_told_in_its_own_variables() -> None:
    (rank,) = allocate(1, 2, allowed=[0, 1], cpu_map=CpuMap(tuple(virtual_machine()))).ranks
    assert rank.as_env == {"OMP_NUM_THREADS": "2", "OMP_PLACES": "{0},{1}", "OMP_PROC_BIND": "close"}
    assert rank.as_gomp_env["GOMP_CPU_AFFINITY"] == "0 1"
    assert rank.as_intel_env["KMP_AFFINITY"] == "granularity=fine,proclist=[0,1],explicit"


RANK = (
    "import sys\nfrom accel.machine.affinity import allocate\n"
    "allocate(2, 1).ranks[int(sys.argv[1])].pin()\n"
    "print('ready', flush=True)\nsys.stdin.read()"
)


@on_linux
def test_two_ranks_of_one_thread_are_really_on_different_cores() -> None:
    if len(starting_mask()) < 2:
        pytest.skip("two CPUs are needed")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for rank in range(2)
    ]
    try:
        assert [process.stdout.readline() for process in running] == [b"ready\n"] * 2
        places = read_threads([(process.pid, f"rank {n}") for n, process in enumerate(running)])
        assert {place.pid: place.allowed for place in places if place.is_main} == {
            process.pid: rank.cpus for process, rank in zip(running, allocate(2, 1).ranks, strict=True)
        }
        assert all(place.allowed == (place.cpu,) for place in places if place.is_main)
        cores = read_cpu_map().cores_of(place.cpu for place in places)
        assert len(cores) == 2
    finally:
        for process in running:
            process.communicate()


@on_linux
def test_cpus_are_given_out_where_openmp_has_bound_the_main_thread() -> None:
    if len(starting_mask()) < 2:
        pytest.skip("two CPUs are needed")
    code = (
        "import os, torch\ntorch.ones(500, 500) @ torch.ones(500, 500)\n"
        "from accel.machine.affinity import allocate\n"
        "print(len(os.sched_getaffinity(0)), [rank.cpus for rank in allocate(2, 1).ranks])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"OMP_PROC_BIND": "close", "OMP_NUM_THREADS": "2"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.split(" ", 1) == ["1", f"{[rank.cpus for rank in allocate(2, 1).ranks]}\n"]


def test_one_is_told_as_one() -> None:
    with pytest.raises(AccelError) as told:
        allocate(2, 1, allowed=[0], cpu_map=CpuMap(tuple(virtual_machine())))
    assert "2 ranks × 1 thread" in str(told.value)
    assert "there is 1" in str(told.value)
    assert "Use at most 1 rank." in str(told.value)


def test_a_quota_below_what_is_given_out_is_told() -> None:
    xeon = CpuMap(tuple(two_socket_xeon()))
    told = str(allocate(2, 2, allowed=[0, 1, 2, 3], cpu_map=xeon, quota_cores=1.5))
    assert (
        "The container's quota lets 2 threads compute at a time (1.5 s of CPU time a second), and these are 4"
        in told
    )
    assert "quota" not in str(allocate(2, 1, allowed=[0, 1, 2, 3], cpu_map=xeon, quota_cores=1.5))


@on_linux
def test_a_rank_pins_itself_before_torch_is_there_and_reads_its_mask_back() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed")
    (_, rank) = allocate(2, 1).ranks
    code = (
        f"from accel.machine.affinity import RankCpus\nprint(RankCpus(1, {rank.cpus}).pin())\n"
        "import os, torch\ntorch.ones(500, 500) @ torch.ones(500, 500)\n"
        "print(torch.get_num_threads(), [sorted(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told[0] == str(rank.cpus)
    threads, masks = told[1].split(" ", 1)
    assert threads == "1"
    assert {tuple(mask) for mask in eval(masks)} == {rank.cpus}


@on_linux
@pytest.mark.parametrize("cpus", [(100_000,), (0, 100_000), ()])
def test_what_the_system_refuses_is_told_and_nothing_is_changed(cpus) -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(AccelError, match="Use CPUs that are there"):
        RankCpus(0, cpus).pin()
    assert os.sched_getaffinity(0) == before


@on_linux
def test_this_process_is_on_the_map_with_its_mask(capsys) -> None:
    found = accel.affinity()
    (main_thread,) = [each for each in found.threads if each.is_main and each.kind == "notebook"]
    assert set(main_thread.allowed) == os.sched_getaffinity(0)
    assert "main thread" in str(found)
    assert main(["affinity", "--json"]) == 0
    assert '"numa_node"' in capsys.readouterr().out


def seen(
    *threads: ThreadPlace, machine=two_socket_xeon, torch_threads=None, environment=(), usable=None
) -> str:
    found = Affinity(CpuMap(tuple(machine())), threads, torch_threads, environment, usable=usable)
    return " ".join(found.notes)


def place(
    thread,
    cpu,
    allowed=tuple(range(16)),
    group="this notebook",
    *,
    pid=1,
    runs=True,
    busy=None,
    kind="notebook",
) -> ThreadPlace:
    return ThreadPlace(pid, thread, group, "thread", cpu, allowed, 0.0, runs, busy, kind)


def test_what_is_amiss_is_told_in_words() -> None:
    assert seen(place(1, 0), place(2, 1)) == ""
    assert "CPUs 0 and 8 are one core" in seen(place(1, 0), place(2, 8))
    assert "several NUMA nodes" in seen(place(1, 0), place(2, 4))
    narrowed = seen(place(1, 0, (0,)), environment=(("OMP_PROC_BIND", "close"),))
    assert "Narrowed to one CPU (OMP_PROC_BIND did it)" in narrowed
    worker = place(9, 1, group="loader worker 1", pid=9, runs=False, kind="loader worker")
    assert "2 CPUs may be used" not in seen(place(1, 0), worker, torch_threads=8)
    assert "16 threads of torch and 1 loader worker want 17" in seen(place(1, 0), worker, torch_threads=16)
    narrowed = seen(place(1, 0), place(9, 0, (0,), "loader worker 1", pid=9, kind="loader worker"))
    assert "Narrowed to one CPU: loader worker 1." in narrowed
    assert "accel.loader_affinity(cpus)" in narrowed


def test_workers_and_torch_want_cpus_only_while_they_compute() -> None:
    main_thread = place(1, 0, busy=0.9)
    idle, busy = (
        place(9, 1, group="loader worker 1", pid=9, busy=share, kind="loader worker") for share in (0.0, 0.9)
    )
    assert "want 17" in seen(main_thread, busy, torch_threads=16)
    assert "Over-subscribed" not in seen(main_thread, idle, torch_threads=16)
    assert "Over-subscribed" not in seen(place(1, 0, busy=0.0), busy, torch_threads=16)
    assert "17 threads of torch want 17" in seen(place(1, 0, busy=0.0), idle, torch_threads=17)


def test_the_quota_of_a_container_counts_as_well_as_its_cpus(tmp_path) -> None:
    root = tree_files.write_tree(
        "container_with_quota", tmp_path
    )  # four CPUs, and CPU time of one and a half
    cpu_map = read_cpu_map(root)
    usable = read_usable_cores(root, tuple(cpu_map.by_number))
    main_thread = place(1, 2, usable.allowed)
    told = Affinity(cpu_map, (main_thread,), torch_threads=4, usable=usable).notes
    assert any(
        "4 threads of torch want 4 CPUs, and 2 may be used (the container's quota of 1.5 cores" in note
        for note in told
    )
    assert Affinity(cpu_map, (main_thread,), torch_threads=2, usable=usable).notes == []
    assert Affinity(cpu_map, (main_thread,), torch_threads=4).notes == []  # without the quota four would do
    assert Affinity(cpu_map, (main_thread,), usable=usable).to_dict()["quota_cores"] == 1.5


def test_a_process_is_told_to_use_one_node_only_if_it_fits_into_one() -> None:
    few = [place(n, cpu, busy=0.9) for n, cpu in enumerate((0, 1, 4, 5), 1)]
    assert "pin it to one" in seen(*few)
    whole = seen(*(place(n + 1, n, busy=0.9) for n in range(8)))
    assert "pin it to one" not in whole
    assert "with 8 threads on 2 NUMA nodes, more than one of them has cores for" in whole
    assert "One rank a node avoids that: allocate(2, 4)." in whole


def test_why_there_is_nothing_is_in_the_plain_values_too() -> None:
    assert (
        Affinity(CpuMap(()), (), why_not="Not reported by this system (darwin).")
        .to_dict()["told"]
        .endswith("(darwin).")
    )


def test_ranks_pinned_to_cpus_of_their_own_are_as_they_should_be_and_two_on_one_are_not() -> None:
    ranks = [place(n, n, (n,), f"rank {n}", pid=n, kind="rank") for n in (1, 2)]
    assert seen(*ranks) == ""
    together = [place(n, 1, (1,), f"rank {n}", pid=n, kind="rank") for n in (1, 2)]
    assert "rank 1 and rank 2 may use CPU 1 only, and take turns on it" in seen(*together)


def test_after_two_looks_the_share_of_a_cpu_counts_and_not_the_instant() -> None:
    assert "one core" not in seen(place(1, 0, busy=0.0), place(2, 8, busy=0.9))
    assert "one core" in seen(place(1, 0, busy=0.5, runs=False), place(2, 8, busy=0.9))
    halves = seen(place(1, 0, busy=0.5), place(2, 0, busy=0.49))
    assert (
        "2 busy threads take turns on CPU 0: this notebook's thread 50 % and this notebook's thread 49 %"
        in halves
    )
    assert "take turns" not in seen(place(1, 0, busy=0.95), place(2, 0, busy=0.2))


def test_it_is_shown_as_a_map_with_everything_escaped() -> None:
    found = Affinity(CpuMap(tuple(laptop())), (place(1, 0, group="<b>"),))
    html = found._repr_mimebundle_()["text/html"]
    assert "<b>" not in html
    assert [html.count(f">CPU {number}<") for number in range(8)] == [1] * 8


def test_text_and_map_of_ranks_workers_and_a_notebook_read_as_they_did() -> None:
    whole = tuple(range(16))
    found = Affinity(
        CpuMap(tuple(two_socket_xeon())),
        (
            place(1, 0, whole, busy=0.02),
            place(2, 8, whole, busy=0.0),
            place(10, 1, (0, 1), "rank 0", pid=10, busy=0.98, kind="rank"),
            place(20, 5, (4, 5), "rank 1", pid=20, busy=0.61, kind="rank"),
            place(30, 5, (5,), "rank 1's loader worker 1", pid=30, busy=0.35, kind="loader worker"),
        ),
        torch_threads=1,
    )
    shown = found._repr_mimebundle_()
    check_snapshot("affinity/ranks_and_workers.txt", shown["text/plain"])
    check_snapshot("affinity/ranks_and_workers.html", shown["text/html"].replace("><", ">\n<"))


def test_many_cpus_on_which_nobody_is_share_a_line() -> None:
    many = [LogicalCpu(n, n % 64, n // 64, n // 64, (n,)) for n in range(256)]
    assert str(Affinity(CpuMap(tuple(many)), (place(1, 70, busy=0.98),))).splitlines()[:6] == [
        "CPUs 0-63     node 0, socket 0          –",
        "CPUs 64-69    node 1, socket 1          –",
        "CPU 70        node 1, socket 1, core 6  this notebook: ● thread 98 %",
        "CPUs 71-127   node 1, socket 1          –",
        "CPUs 128-191  node 2, socket 2          –",
        "CPUs 192-255  node 3, socket 3          –",
    ]


@pytest.mark.parametrize(
    ("variables", "binding"),
    [
        ({"OMP_PROC_BIND": "false", "OMP_PLACES": "cores"}, []),
        ({"OMP_PROC_BIND": "close"}, ["OMP_PROC_BIND"]),
        ({"OMP_PLACES": "cores"}, ["OMP_PLACES"]),
        ({"KMP_AFFINITY": "disabled"}, []),
        ({"KMP_AFFINITY": "verbose,none"}, []),
        ({"KMP_AFFINITY": "granularity=fine,compact", "OMP_PROC_BIND": "FALSE"}, ["KMP_AFFINITY"]),
    ],
)
def test_a_variable_that_says_not_to_bind_is_not_blamed(monkeypatch, variables, binding) -> None:
    for name in BINDING:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert [name for name, _ in binding_variables()] == binding


@pytest.mark.skipif(sys.platform != "linux", reason="there are no affinity masks here")
def test_where_the_process_began_with_one_cpu_openmp_did_not_narrow_it() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"  # as taskset does, before torch is there
    code += "import accel.machine.affinity as a; print(a.affinity().environment)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_PROC_BIND": "close"},
        capture_output=True,
        text=True,
    )
    assert told.stdout == "()\n", told.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are read from /proc")
def test_an_openmp_library_below_a_folder_with_a_space_is_found_and_one_that_is_gone_is_passed_over(
    monkeypatch,
) -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 08:01 42    /usr/my tools/libgomp-1.so.1\n7f02-7f03 rw-p 00000000 00:00 0\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda path: maps)
    assert _openmp_libraries() == ["/usr/my tools/libgomp-1.so.1"]
    assert _openmp_places() == set()
