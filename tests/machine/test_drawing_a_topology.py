"""A topology drawn: as text and HTML for every recorded matrix (snapshots), as figures, and where its devices are put."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given

from accel.machine.topology import Device, Link, Topology, read_matrix
from accel.machine.topology.placing import places_of
from accel.machine.topology.reading import NO_DRIVER, with_the_machine
from accel.views.topology.machine_layout import lay_out
from tests.machine.made_topologies import COURSE, RECORDED, joined, matrices, recorded
from tests.machine.snapshots import check_snapshot
from tests.machine.trees import tree_files

MATRICES = sorted(path.stem for path in RECORDED.glob("*.txt") if ".spaces" not in path.name)


@pytest.mark.parametrize("name", MATRICES)
def test_what_a_user_sees_of_it(name) -> None:
    shown = recorded(name)._repr_mimebundle_()
    check_snapshot(f"topology/{name}.txt", shown["text/plain"])
    check_snapshot(f"topology/{name}.html", shown["text/html"].replace("><", ">\n<"))


@pytest.mark.parametrize("tree", tree_files.names())
def test_what_a_user_sees_of_a_machine_without_gpus(tree, tmp_path) -> None:
    found = with_the_machine(Topology((), (), NO_DRIVER), tree_files.write_tree(tree, tmp_path))
    check_snapshot(f"topology/{tree}.txt", found._repr_mimebundle_()["text/plain"])
    check_snapshot(f"topology/{tree}.html", found._repr_mimebundle_()["text/html"].replace("><", ">\n<"))


@given(matrices())
def test_every_device_is_drawn_once_and_within_its_boxes(topology) -> None:
    drawn = [device.name for device in topology.machine.devices]
    assert sorted(drawn) == sorted(device.name for device in topology.devices)
    layout = lay_out(topology.machine)
    assert set(layout.places) == set(drawn)
    places = sorted(layout.places.values())
    assert all(later - earlier > 0.8 for earlier, later in itertools.pairwise(places))
    for first, second in itertools.combinations(layout.boxes, 2):
        is_beside = second.left >= first.right or second.right <= first.left
        is_within = (first.left < second.left and second.right < first.right) or (
            second.left < first.left and first.right < second.right
        )
        assert is_beside or is_within
    html = topology._repr_mimebundle_()["text/html"]
    assert not re.search(r"<(?:svg|style|script)", html)
    topology.figure()


def test_the_sides_of_the_courses_machine_are_found_from_what_sys_keeps_apart() -> None:
    sides = places_of(read_matrix(COURSE))
    assert [[gpu.index for gpu in side.devices] for side in sides] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert {side.how for side in sides} == {"labels"}
    assert "as far as the labels tell" in str(read_matrix(COURSE))


def test_where_sys_does_not_tell_sides_nothing_is_guessed() -> None:
    in_two_ways = joined(
        4, lambda a, b: "SYS" if {a, b} in ({0, 1}, {2, 3}) else "NV2"
    )  # 0,2 | 1,3 or 0,3 | 1,2
    (place,) = places_of(in_two_ways)
    assert (place.how, len(place.devices)) == ("unknown", 4)
    three = joined(6, lambda a, b: "PHB" if a // 2 == b // 2 else "SYS")
    assert [len(place.devices) for place in places_of(three)] == [2, 2, 2]


def test_cards_beside_the_matrix_are_drawn_though_nothing_tells_a_node() -> None:
    card = Device("eth0", path=("pci0000:00", "0000:00:03.0"))
    found = replace(joined(2, lambda a, b: "SYS"), other_cards=(card,))
    assert [device.name for device in found.machine.devices] == ["GPU0", "GPU1", "eth0"]
    assert "eth0" in str(found)


def test_a_switch_is_told_where_no_gpu_has_links_enough_for_all_others() -> None:
    eight, four = joined(8, lambda a, b: "NV18"), joined(4, lambda a, b: "NV6")
    (switch,) = eight.nvlinks.switches
    assert str(switch) == "NVSwitch: GPU0–GPU7, each with 18 NVLinks, and with all of them to any other"
    assert eight.nvlinks.pairs == ()
    assert (len(four.nvlinks.pairs), four.nvlinks.switches) == (6, ())
    assert any(trace.text == ("NVSwitch",) for trace in eight.figure().data)
    assert not any(trace.text == ("NVSwitch",) for trace in four.figure().data)


def test_cards_and_their_gpus_share_a_place_though_cards_have_no_columns() -> None:
    found = recorded("h100x4_nv6_4nic")
    assert [[device.name for device in place.devices] for place in places_of(found)] == [
        ["GPU1", "NIC1"], ["GPU0", "NIC0"], ["GPU3", "NIC3"], ["GPU2", "NIC2"]
    ]  # fmt: skip


def test_sys_within_one_node_is_told() -> None:
    assert (
        "SYS stands between GPU0 and GPU1, though both are at NUMA node 0."
        in recorded("rtx4090x8_sys_2nic").advice
    )
    assert not any("though both" in line for line in recorded("gpu6_pix_node_sys").advice)


def test_names_of_devices_are_escaped() -> None:
    found = Topology((Device("GPU0", model="<b>big</b>"),), ((Link("X"),),))
    assert "<b>big" not in found._repr_mimebundle_()["text/html"]
