"""The matrix of `nvidia-smi topo -m`: read as it was, refused where it does not fit, and the GPUs chosen by it."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel.cli import main
from accel.errors import AccelError, UnknownName
from accel.machine.topology import Device, Link, Topology, read_matrix
from accel.machine.topology.links import WAYS

RECORDED = Path(__file__).parent / "topology"
INDEX = json.loads((RECORDED / "index.json").read_text())
COURSE = (RECORDED / "course_8_gpus.txt").read_text()


@pytest.mark.parametrize("form", ["", ".spaces"], ids=["tabs", "spaces"])
@pytest.mark.parametrize("recorded", INDEX, ids=lambda recorded: recorded["name"])
def test_a_recorded_matrix_is_read_as_it_was(recorded, form) -> None:
    found = read_matrix((RECORDED / f"{recorded['name']}{form}.txt").read_text())
    assert [device.name for device in found.devices] == recorded["columns"]
    assert [[link.label for link in row] for row in found.links] == recorded["cells"]
    for device, (cpus, *node) in zip(
        found.devices, (row or ["", ""] for row in recorded["affinity"]), strict=True
    ):
        assert str(device.numa_node if device.numa_node is not None else "") == node[0]
        assert len(device.cpus) == sum(
            int(last or first) - int(first) + 1
            for first, _, last in (part.partition("-") for part in filter(None, cpus.split(",")))
        )


def matrices():
    labels = st.sampled_from([*WAYS, "NV1", "NV2", "NV12", "NV18"])
    counts = st.tuples(st.integers(1, 6), st.integers(0, 3))

    def made(counts_drawn):
        gpus, cards = counts_drawn
        names = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(cards)]
        pairs = len(names) * (len(names) - 1) // 2
        near = st.tuples(st.frozensets(st.integers(0, 200), min_size=1), st.integers(0, 7))
        return st.builds(
            lambda drawn, nears: topology_of(names, drawn, nears[:gpus]),
            st.lists(labels, min_size=pairs, max_size=pairs), st.lists(near, min_size=gpus, max_size=gpus),
        )  # fmt: skip

    return counts.flatmap(made)


def topology_of(names, drawn, nears):
    between = dict(zip(itertools.combinations(range(len(names)), 2), map(Link, drawn), strict=True))
    links = tuple(
        tuple(Link("X") if a == b else between[min(a, b), max(a, b)] for b in range(len(names)))
        for a in range(len(names))
    )
    places = [(tuple(sorted(cpus)), node) for cpus, node in nears] + [((), None)] * len(names)
    return Topology(tuple(Device(name, *place) for name, place in zip(names, places, strict=False)), links)


@given(matrices())
def test_what_is_written_is_read_again_with_tabs_and_with_spaces(topology) -> None:
    for text in (topology.matrix, topology.matrix.replace("\t", "    ")):
        again = read_matrix(f"$ nvidia-smi topo -m\n\x1b[4m{text}\x1b[0m\n\nLegend:\n\n  X    = Self\n")
        assert (again.devices, again.links) == (topology.devices, topology.links)


@given(matrices(), st.data())
def test_a_matrix_with_a_cell_lost_or_changed_is_refused_with_its_line(topology, data) -> None:
    lines = topology.matrix.splitlines()
    number = data.draw(st.integers(1, len(topology.devices)))
    words = lines[number].split("\t")
    place = data.draw(st.integers(1, len(topology.devices)))
    change = data.draw(st.sampled_from(["lost", "joined", "unknown"]))
    if change == "lost" or (change == "joined" and place == len(words) - 1):
        del words[place]
    elif change == "joined":
        words[place : place + 2] = ["".join(map(str.strip, words[place : place + 2]))]
    else:
        words[place] = "NV0"
    lines[number] = "\t".join(words)
    with pytest.raises(AccelError) as refusal:
        read_matrix("\n".join(lines))
    assert re.search(r"^Line \d+ of the topology matrix", str(refusal.value))


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "begins with GPU0"),
        ("GPU0GPU1 GPU2\nGPU0 X PIX", "run into each other"),
        ("     GPU0 GPU1\nGPU0 X SYS", "GPU1 is missing"),
        ("     GPU0 GPU1\nGPU0 X SYS\nGPU1 PIX X", "joined by PIX here, and by SYS in line 2"),
        ("     GPU0 GPU1\nGPU0 X SYS\nGPU2 SYS X", "the row of GPU1 is expected"),
        ("     GPU0 GPU1\nGPU0 SYS X\nGPU1 X SYS", "X stands for a device and itself"),
        ("     GPU0 GPU0\nGPU0 X X\nGPU0 X X", "named twice"),
        ("     GPU0 CPU Affinity\nGPU0 X zero", "no list of cores"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(text, because) -> None:
    with pytest.raises(AccelError) as refusal:
        read_matrix(text)
    assert because in str(refusal.value)
    assert "nvidia-smi topo -m" in str(refusal.value)


def test_the_label_of_an_old_driver_and_the_names_of_cards_are_understood() -> None:
    text = "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nmlx5_0\tSOC\t X \n"
    assert read_matrix(text).link("GPU0", "mlx5_0") == Link("SYS")
    legend = "\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n\nNIC Legend:\n\n  NIC0: mlx5_3\n"
    assert read_matrix(legend).network_cards == (Device("NIC0", model="mlx5_3"),)


def test_the_best_gpus_of_the_courses_machine() -> None:
    found = read_matrix(COURSE)
    pair, four = found.best_gpus(2), found.best_gpus(4)
    assert (pair.indices, pair.slowest, pair.equals) == ((0, 3), Link("NV2"), 7)
    assert (
        "GPU0 and GPU3 share two NVLinks; GPU0 and GPU5 would go through the link between sockets"
        in pair.reason
    )
    assert pair.as_env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,3"}
    assert pair.renumbering == "GPU0 is cuda:0, GPU3 is cuda:1"
    assert (four.indices, four.slowest.label, four.equals) == ((0, 1, 2, 3), "NV1", 1)
    assert {found.link(f"GPU{a}", f"GPU{b}").label for a, b in ((0, 4), (1, 2))} == {"NV2"}
    assert {found.link(f"GPU{a}", f"GPU{b}").label for a, b in ((0, 5), (2, 4))} == {"SYS"}
    assert "Farthest apart: GPU0 and GPU5" in str(found)


@given(matrices(), st.integers(1, 6))
def test_no_other_group_has_a_nearer_farthest_pair(topology, count) -> None:
    if count > len(topology.gpus):
        with pytest.raises(AccelError):
            topology.best_gpus(count)
        return
    choice = topology.best_gpus(count)
    assert len(set(choice.indices)) == count
    for group in itertools.combinations(topology.gpus, count):
        links = [link for _, _, link in topology.pairs(group)]
        assert not links or min(links).nearness <= choice.slowest.nearness


def test_links_are_ordered_from_near_to_far() -> None:
    labels = ["NV18", "NV2", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS"]
    assert [link.label for link in sorted(map(Link, labels), reverse=True)] == labels
    assert Link("NV18").gb_per_s(capability=(9, 0)) == pytest.approx(370.8)
    assert Link("PIX").gb_per_s(pcie_generation=5) > Link("SYS").gb_per_s(pcie_generation=5)


def test_it_is_shown_as_table_and_figures_with_everything_escaped() -> None:
    found = read_matrix(COURSE, source="<b>topo</b>.txt")
    html = found._repr_mimebundle_()["text/html"]
    assert "<b>topo" not in html
    assert html.count("NV2") >= 16
    assert [type(trace).__name__ for trace in found.figure("matrix").data] == ["Heatmap"]
    lines = [trace for trace in found.figure().data if trace.mode == "lines+text"]
    assert len(lines) == sum(link.label != "SYS" for _, _, link in found.pairs())
    with pytest.raises(UnknownName):
        found.figure("tree")


def test_the_command_line_reads_a_file_and_prints_json(capsys, tmp_path) -> None:
    assert main(["topology", "--from", str(RECORDED / "h100x4_nv6_4nic.txt"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"]["2"]["gpus"] == [0, 1]
    assert told["gb_per_s"]["GPU0-GPU1"] == 120.0
    assert main(["topology", "--from", str(tmp_path / "none.txt")]) == 2
    assert "nvidia-smi topo -m > topo.txt" in capsys.readouterr().err


def test_a_machine_without_a_driver_has_no_links(monkeypatch) -> None:
    import pynvml

    def no_driver():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert str(accel.topology()) == "No GPU (no NVIDIA driver answers here): there are no links to show."
