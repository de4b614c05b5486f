"""Which cores are fast and which are efficiency cores, even if the clock of some is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.machine.affinity import LogicalCpu, allocate, read_cpu_map
from accel.machine.core_kinds import economical_cpus
from accel.machine.hardware import read_hardware
from tests.machine.trees import tree_files


@pytest.mark.parametrize(
    ("cores", "economical"),
    [
        ([{"speed": 3_000_000}, {}], ()),  # the second has no cpufreq folder
        ([{"capacity": 1024}, {}], ()),  # nor a cpu_capacity
        ([{"speed": 5_000_000}, {"capacity": 1024}], ()),
        ([{"speed": 5_000_000}, {}, {"speed": 3_700_000}], (2,)),
        ([{"speed": 5_000_000}, {"is_economical": True}], (1,)),  # the kernel knows without a clock
        ([{"speed": 3_000_000, "capacity": 1024}, {"speed": 3_000_000, "capacity": 446}], (1,)),
        ([{}, {}], ()),
    ],
)
def test_a_core_of_unknown_speed_is_not_slow(cores, economical) -> None:
    cpus = [
        LogicalCpu(number, core=number, siblings=(number,), **known) for number, known in enumerate(cores)
    ]
    assert economical_cpus(cpus) == frozenset(economical)


def without_clocks_of_odd_cpus(name: str, tmp_path: Path) -> Path:
    root = tree_files.write_tree(name, tmp_path)
    for clock in (root / "sys/devices/system/cpu").glob("cpu*/cpufreq/cpuinfo_max_freq"):
        if int(clock.parents[1].name.removeprefix("cpu")) % 2:
            clock.unlink()
    return root


def test_where_half_of_the_cores_tell_no_clock_nothing_is_warned_of(tmp_path: Path) -> None:
    root = without_clocks_of_odd_cpus("xeon_2_sockets_smt", tmp_path)
    cpu_map = read_cpu_map(root)
    assert read_hardware(root).cpu.core_kinds == ()
    assert not cpu_map.is_hybrid
    assert "economical" not in str(allocate(2, 32, allowed=list(cpu_map.by_number), cpu_map=cpu_map))


def test_cores_that_the_kernel_lists_as_economical_stay_so(tmp_path: Path) -> None:
    kinds = read_hardware(without_clocks_of_odd_cpus("laptop_p_e_cores", tmp_path)).cpu.core_kinds
    assert [(kind.name, kind.cores, kind.threads) for kind in kinds] == [
        ("fast", 6, 12),
        ("economical", 8, 8),
    ]
