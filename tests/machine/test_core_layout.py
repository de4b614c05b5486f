"""Every CPU is drawn exactly once, whatever the machine says of itself."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from accel.machine.affinity import Affinity, CpuMap, LogicalCpu
from accel.machine.affinity.cpu_map import CoreBox, core_layout
from tests.machine.test_affinity import amd_of_chiplets, laptop, two_socket_xeon, virtual_machine

NUMBERS = st.integers(0, 300)
SMALL = st.integers(0, 3)
CPUS = st.builds(
    LogicalCpu, NUMBERS, core=SMALL, socket=SMALL, numa_node=SMALL, siblings=st.lists(NUMBERS, max_size=3).map(tuple),
    cache_group=SMALL, speed=st.sampled_from([0, 3_000_000, 5_000_000]),
)  # fmt: skip
MAPS = st.lists(CPUS, max_size=40, unique_by=lambda cpu: cpu.number).map(lambda cpus: CpuMap(tuple(cpus)))


@given(MAPS)
def test_every_cpu_of_any_map_is_laid_out_exactly_once(cpu_map: CpuMap) -> None:
    drawn = [cpu for box in core_layout(cpu_map) for cpu in box.all_cpus]
    assert Counter(drawn) == Counter(cpu_map.by_number.keys())
    html = Affinity(cpu_map, ())._repr_mimebundle_()["text/html"]
    assert all(html.count(f">CPU {number}<") == 1 for number in cpu_map.by_number)


def outline(box: CoreBox) -> object:
    if box.level == "core":
        return box.cpus
    inside = [outline(each) for each in box.boxes]
    return {box.label: inside} if box.label else inside


def of(cpus: list[LogicalCpu]) -> list[object]:
    return [outline(box) for box in core_layout(CpuMap(tuple(cpus)))]


def test_boxes_have_a_name_only_where_there_are_several() -> None:
    assert of(virtual_machine()) == [[[[(0,), (1,)]]]]


def test_threads_of_a_core_are_together_in_their_socket_and_node() -> None:
    assert of(two_socket_xeon()) == [
        {"socket 0": [{"NUMA node 0": [[(0, 8), (1, 9), (2, 10), (3, 11)]]}]},
        {"socket 1": [{"NUMA node 1": [[(4, 12), (5, 13), (6, 14), (7, 15)]]}]},
    ]


def test_cores_with_a_cache_in_common_are_a_box() -> None:
    chiplets = [{f"cache of CPUs {n}-{n + 1}": [(n,), (n + 1,)]} for n in (0, 2, 4, 6)]
    assert of(amd_of_chiplets()) == [[chiplets]]


def test_fast_cores_come_first_and_say_so() -> None:
    ((node,),) = (box.boxes for box in core_layout(CpuMap(tuple(laptop()))))
    cores = [core for cache in node.boxes for core in cache.boxes]
    assert [core.label for core in cores] == [
        "core 0 (fast)", "core 1 (fast)", *(f"core {n} (economical)" for n in range(4, 8)),
    ]  # fmt: skip
