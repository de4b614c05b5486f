"""The matrix of `nvidia-smi topo -m`: read as it was, refused where it does not fit, and the GPUs chosen by it."""

from __future__ import annotations

import io
import itertools
import json
import re
import textwrap
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import accel
from accel.cli import main
from accel.errors import AccelError, UnknownName
from accel.machine.affinity.cpu_map import read_cpu_map
from accel.machine.topology import Device, Link, Topology, read_matrix
from accel.machine.topology.reading import numa_nodes
from tests.machine.made_topologies import COURSE, RECORDED, joined, matrices, recorded

INDEX = json.loads((RECORDED / "index.json").read_text())


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


def pasted(matrix, form):
    """As nvidia-smi prints it: headings underlined, with the legend; with tabs, padded with spaces, or from Windows."""
    head, *rows = matrix.splitlines()
    text = "\n".join(
        [
            "$ nvidia-smi topo -m",
            f"\t\x1b[4m{head.lstrip()}\x1b[0m",
            *rows,
            "",
            "Legend:",
            "",
            "  X    = Self",
        ]
    )
    return {"tabs": text, "spaces": text.replace("\t", "    "), "Windows": text.replace("\n", "\r\n")}[form]


@pytest.mark.parametrize("form", ["tabs", "spaces", "Windows"])
@given(matrices())
def test_what_is_written_is_read_again(form, topology) -> None:
    again = read_matrix(pasted(topology.matrix, form))
    assert (again.devices, again.links) == (topology.devices, topology.links)
    assert again.matrix == topology.matrix


@given(matrices(), st.data())
def test_a_matrix_with_a_cell_lost_or_changed_is_refused_with_its_line(topology, data) -> None:
    lines = topology.matrix.splitlines()
    number = data.draw(st.integers(1, len(topology.devices)))
    words = lines[number].split("\t")
    place = data.draw(st.integers(1, len(topology.devices)))
    if data.draw(st.booleans()):
        del words[place]
    else:
        words[place] = "NV0"
    lines[number] = "\t".join(words)
    with pytest.raises(AccelError) as refusal:
        read_matrix("\n".join(lines))
    assert re.search(r"^Line \d+ of the topology matrix", str(refusal.value))


@given(matrices(), st.data())
def test_links_that_run_into_each_other_are_told_apart(topology, data) -> None:
    lines = topology.matrix.splitlines()
    number = data.draw(st.integers(1, len(topology.devices)))
    words = lines[number].split("\t")
    links = [words[0], *map(str.strip, words[1 : len(topology.devices) + 1])]
    place = data.draw(st.integers(1, len(topology.devices)))
    glued = [*links[:place], "".join(links[place : place + 2]), *links[place + 2 :]]
    lines[number] = "\t".join([*glued, *words[len(links) :]])
    again = read_matrix("\n".join(lines))
    assert (again.devices, again.links) == (topology.devices, topology.links)


def test_names_and_links_without_a_blank_between_are_told_apart() -> None:
    found = read_matrix("     GPU0GPU1NIC0\nGPU0X PXBNODE\nGPU1 PXBXSYS\nNIC0 NODESYSX")
    assert [device.name for device in found.devices] == ["GPU0", "GPU1", "NIC0"]
    pairs = (("GPU0", "GPU1"), ("GPU0", "NIC0"), ("GPU1", "NIC0"))
    assert [found.link(*pair).label for pair in pairs] == ["PXB", "NODE", "SYS"]
    assert read_matrix("     GPU0 GPU1\nGPU0 XNV12\nGPU1 NV12X").link("GPU0", "GPU1") == Link("NV12")


@pytest.mark.parametrize("prefix", ["# ", "#", "> ", "> > ", ">>", "  # "])
@pytest.mark.parametrize("name", ["gpu6_pix_node_sys", "h100x4_nv6_4nic"])
def test_a_matrix_that_is_quoted_or_a_comment_is_read(name, prefix) -> None:
    text = f"nvidia-smi topo -m\n\n{(RECORDED / f'{name}.txt').read_text()}\n\nLegend:\n  X = Self"
    found = read_matrix("\n".join(prefix + line for line in text.splitlines()))
    assert (found.devices, found.links) == (recorded(name).devices, recorded(name).links)


def at_columns(text: str, width: int) -> str:
    """The lines as a terminal of that many columns breaks them: anywhere."""
    pieces = ([line[n : n + width] for n in range(0, len(line), width)] or [""] for line in text.splitlines())
    return "\n".join(piece for line in pieces for piece in line)


def between_words(text: str, width: int) -> str:
    """The lines as a mail program breaks them: between two words."""
    return "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in text.splitlines())


@pytest.mark.parametrize("prefix", ["", "> "])
@pytest.mark.parametrize(("broken", "width"), [(at_columns, 80), (at_columns, 72), (between_words, 60)])
@pytest.mark.parametrize("name", ["gpu6_pix_node_sys", "h100x4_nv6_4nic", "rtx4090x8_sys_2nic"])
def test_a_matrix_whose_lines_were_broken_is_put_together_again(name, broken, width, prefix) -> None:
    lines = broken((RECORDED / f"{name}.spaces.txt").read_text(), width).splitlines()
    found = read_matrix("\n".join(prefix + line for line in lines))
    assert (found.devices, found.links) == (recorded(name).devices, recorded(name).links)


def test_lines_that_can_be_put_together_in_two_ways_are_not() -> None:
    """CPUs 0 to 15, or CPUs 0 and 1 of node 5."""
    text = "     GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X SYS 0-1\n5 0\nGPU1 SYS X 0-15 0"
    with pytest.raises(AccelError, match=r"Line 3 .*the row of GPU1 is expected here, .* begins with '5'"):
        read_matrix(text)
    two_columns = text.replace(" GPU NUMA ID", "")  # a cell too many in the second way
    assert read_matrix(two_columns).gpus[0] == Device("GPU0", tuple(range(16)), 0)


WORDS = [
    "GPU0", "GPU1", "GPU0-1", "NIC0", "mlx5_0", "X", " X ", "NV1", "NV²", "SYS", "PIX", "CPU Affinity", "NUMA Affinity",
    "GPU NUMA ID", "0-7", "7-0", "0,2-17", "³", "N/A", "0", "NIC0: mlx5_0", "\x1b[4m", "[0m", "\n", "\t", "  ",
]  # fmt: skip


@example(["GPU0", "NIC0", "CPU Affinity", "\nGPU0", "X", "PIX", "0-7", "\nNIC0", "PIX", "X"], " ")
@given(st.lists(st.sampled_from(WORDS), max_size=40), st.sampled_from(["\t", " ", ""]))
def test_any_text_at_all_is_read_or_refused_in_words(words, between) -> None:
    try:
        found = read_matrix(between.join(words))
    except AccelError as refusal:
        assert "topo" in str(refusal)  # noqa: PT017
    else:
        assert read_matrix(found.matrix).links == found.links
        assert found.gpus[0].index == 0


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("     GPU0 GPU1\nGPU0 X OK\nGPU1 OK X", "this is the matrix of -p2p"),
        (
            "     GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\nGPU2 SYS SYS",
            "Line 4 of the topology matrix: there is a row of GPU2",
        ),
        ("     GPU0 GPU1\nGPU0 X SYS 0-7\nGPU1 SYS X", "more cells than columns: 0-7"),
        (
            "     GPU0 NIC0NIC1\nGPU0 X SYSSYS",
            "Line 2 of the topology matrix: it is the last of 1 row for 3 columns",
        ),
        ("     GPU0 NIC0NIC1a\nGPU0 X SYS", "run into each other: NIC0NIC1a"),
        (
            "     GPU0 GPU1 Frobs\nGPU0 X SYS\nGPU1 SYS X",
            "Line 1 of the topology matrix: the line begins with GPU0, but 'Frobs'",
        ),
        (
            "GPU0-GPU1 SYS",
            "Line 1 of the topology matrix: the line begins with GPU0-GPU1, but 'GPU0-GPU1 SYS' is not a column",
        ),
        (
            "GPU0 X SYS\nGPU1 SYS X",
            "Line 1 of the topology matrix: the row of GPU0 has no line of column names above it",
        ),
        (
            "nvidia-smi\n     GPU0 GPU1 CPU Aff\n",
            "Line 2 of the topology matrix: the line begins with GPU0, but 'CPU Aff'",
        ),
        ("     GPU1 GPU2\nGPU1 X SYS\nGPU2 SYS X", "there is no line of column names that begins with GPU0"),
        ("     GPU0 CPU Affinity\nGPU0 X 7-0", "no list of CPUs"),
        ("     GPU0 CPU Affinity\nGPU0 X 0-99999999999", "no list of CPUs"),
        ("     GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 zero", "no NUMA node"),
        ("", "begins with GPU0"),
        ("GPU0GPU1 GPU2\nGPU0 X PIX", "Line 2 of the topology matrix: it has 2 cells for 3 columns"),
        (
            "     GPU0 GPU1\nGPU0 X SYS\n\n",
            "Line 2 of the topology matrix: it is the last of 1 row for 2 columns: GPU1 is missing",
        ),
        ("     GPU0 GPU1\nGPU0 X SYS\nGPU1 PIX X", "joined by PIX here, and by SYS in line 2"),
        ("     GPU0 GPU1\nGPU0 X SYS\nGPU2 SYS X", "the row of GPU1 is expected"),
        ("     GPU0 GPU1\nGPU0 SYS X\nGPU1 X SYS", "X stands for a device and itself"),
        ("     GPU0 GPU0\nGPU0 X X\nGPU0 X X", "named twice"),
        ("     GPU0 CPU Affinity\nGPU0 X zero", "no list of CPUs"),
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


def test_cpus_that_a_container_may_not_use_are_an_empty_cell_and_no_other_column_moves() -> None:
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNV18\t0-35\t0,2-17\t\tN/A\nGPU1\tNV18\t X \t\t1\t\t18\n"
    )
    near, far = read_matrix(text).gpus
    assert (near.cpus, near.numa_node, near.near_nodes[-1], near.memory_node) == (
        tuple(range(36)),
        0,
        17,
        None,
    )
    assert (far.cpus, far.numa_node, far.memory_node) == ((), 1, 18)
    near, far = read_matrix(text.replace("\t", "  ")).gpus  # without tabs, which cell is empty is not known
    assert (near.numa_node, far.cpus, far.numa_node) == (0, (), None)


def test_what_a_paste_leaves_of_the_underlined_headings_is_no_column() -> None:
    text = "[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID[0m\nGPU0\t X \tPHB\t0-7\t\tN/A\t\tN/A\n"
    found = read_matrix(f"{text}GPU1\tPHB\t X \t0-7\t\tN/A\t\tN/A\n")
    assert [(gpu.name, len(gpu.cpus), gpu.numa_node) for gpu in found.gpus] == [
        ("GPU0", 8, None),
        ("GPU1", 8, None),
    ]


def test_the_best_gpus_of_the_courses_machine() -> None:
    found = read_matrix(COURSE)
    pair, four = found.best_gpus(2), found.best_gpus(4)
    assert (pair.indices, pair.slowest, pair.equals) == ((0, 3), Link("NV2"), 7)
    assert (
        pair.reason
        == "GPU0 and GPU3 share two NVLinks; GPU0 and GPU5 cross the link between sockets or NUMA nodes."
    )
    assert "of which the farthest two, GPU0 and GPU1, share one NVLink; GPU0 and GPU5 cross" in four.reason
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


@given(matrices(), st.integers(2, 6))
def test_among_equally_slow_groups_the_one_is_chosen_whose_links_carry_most(topology, count) -> None:
    if count > len(topology.gpus):
        return
    choice = topology.best_gpus(count)

    def rated(group):
        links = [link for _, _, link in topology.pairs(group)]
        return min(links).nearness, round(
            sum(topology.gb_per_s(a, b) for a, b, _ in topology.pairs(group)), 3
        )

    ratings = sorted(rated(group) for group in itertools.combinations(topology.gpus, count))
    chosen = [gpu for gpu in topology.gpus if gpu.index in choice.indices]
    assert rated(chosen) == ratings[-1]
    assert 0 <= choice.equals < ratings.count(ratings[-1])


def test_of_sixteen_gpus_every_group_is_looked_at() -> None:
    near = {1, 5, 6, 9, 10, 12, 14, 15}
    found = joined(16, lambda a, b: "NV2" if {a, b} < near else "PHB")
    assert found.best_gpus(8).indices == (1, 5, 6, 9, 10, 12, 14, 15)
    assert (found.best_gpus(8).equals, found.best_gpus(9).equals) == (0, 7)


def test_of_too_many_gpus_what_can_be_chosen_is_told_and_the_rest_refused() -> None:
    many = joined(32, lambda a, b: "NV2" if a // 2 == b // 2 else "SYS")
    assert [line.partition(":")[0] for line in many.advice[:3]] == ["Best 2", "Best 4", "Farthest apart"]
    assert "8" not in many.to_dict()["best"]
    with pytest.raises(AccelError, match="too many groups"):
        many.best_gpus(8)


def test_of_groups_that_are_joined_alike_one_of_fewest_numa_nodes_is_chosen() -> None:
    found = joined(4, lambda a, b: "NV18", nodes=(0, 1, 1, 0))
    choice = found.best_gpus(2)
    assert (choice.visible, choice.equals) == ("0,3", 5)


def test_a_matrix_is_given_as_text_or_as_a_file() -> None:
    assert accel.topology(text=COURSE).links == read_matrix(COURSE).links
    with pytest.raises(AccelError, match="Give one of them"):
        accel.topology("topo.txt", text=COURSE)


def test_a_count_that_is_no_number_is_refused_in_words() -> None:
    with pytest.raises(AccelError, match="best_gpus\\('2'\\): that is no number of GPUs"):
        read_matrix(COURSE).best_gpus("2")


def test_what_the_rates_of_a_pasted_matrix_assume_is_told() -> None:
    told = "These rates assume PCIe 4 x16 and NVLinks of Ampere (20 GB/s each): the system does not report the actual ones."
    found = read_matrix(COURSE)
    assert found.legend[-1] == found.to_dict()["assumed"] == told
    assert told in found._repr_mimebundle_()["text/html"]
    assert (
        "Farthest apart: GPU0 and GPU5, by way of the link between sockets or NUMA nodes, as 11 other pairs are."
        in str(found)
    )


@pytest.mark.parametrize(
    ("gpus", "label", "gb_per_s", "assumed"),
    [
        (8, "NV18", 370.8, "Hopper (21 GB/s each)"),
        (2, "NV18", 370.8, "Hopper (21 GB/s each)"),
        (4, "NV6", 123.6, "Hopper (21 GB/s each)"),  # 18 of each GPU, to three others
        (8, "NV12", 240.0, "Ampere (20 GB/s each)"),  # the same twelve to each, by switches
        (4, "NV4", 80.0, "Ampere (20 GB/s each)"),
        (2, "NV12", 240.0, "Ampere (20 GB/s each)"),
    ],
)
def test_the_generation_of_nvlinks_is_assumed_from_how_many_a_gpu_has(gpus, label, gb_per_s, assumed) -> None:
    found = joined(gpus, lambda a, b: label)
    assert found.gb_per_s(*found.gpus[:2]) == pytest.approx(gb_per_s)
    assert (
        found.assumed
        == f"These rates assume NVLinks of {assumed}: the system does not report the actual ones."
    )
    known = replace(found, capability=(10, 0))
    assert known.gb_per_s(*known.gpus[:2]) == pytest.approx(40.1 * Link(label).nvlinks)
    assert known.assumed == ""


def test_links_that_are_down_and_pcie_do_not_change_the_generation() -> None:
    some_down = joined(8, lambda a, b: "NV12" if 5 in (a, b) else "NV18")
    assert some_down.gb_per_s(some_down.gpus[0], some_down.gpus[5]) == pytest.approx(12 * 20.6)
    pairs = joined(8, lambda a, b: "NV12" if a // 2 == b // 2 else "SYS")
    assert "NVLinks of Ampere" in pairs.assumed


@pytest.mark.parametrize(
    "mark", ["\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1b[31m", "\x9b31m", "\x07", "\u202e"]
)
def test_what_a_terminal_obeys_does_not_come_out_of_a_paste(mark) -> None:
    text = f"\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0{mark}\n"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", str(read_matrix(text)))
    with pytest.raises(AccelError) as refusal:
        read_matrix(f"\tGPU0\tGPU1\nGPU0\t X \tP{mark}IY")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", str(refusal.value))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_standard_input_is_decoded_as_a_file_is(encoding, monkeypatch) -> None:
    content = io.BytesIO((COURSE + "\n  NIC0: µ").encode(encoding))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content, encoding="utf-8"))
    assert accel.topology(from_file="-").links == read_matrix(COURSE).links


def test_links_are_ordered_from_near_to_far() -> None:
    labels = ["NV18", "NV2", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS"]
    assert [link.label for link in sorted(map(Link, labels), reverse=True)] == labels
    assert Link("NV18").gb_per_s(capability=(9, 0)) == pytest.approx(370.8)
    assert Link("PIX").gb_per_s(pcie=(5, 16)) > Link("SYS").gb_per_s(pcie=(5, 16))


def test_it_is_shown_as_table_and_figures_with_everything_escaped() -> None:
    found = read_matrix(COURSE, source="<b>topo</b>.txt")
    html = found._repr_mimebundle_()["text/html"]
    assert "<b>topo" not in html
    assert html.count("NV2") >= 16
    assert [type(trace).__name__ for trace in found.figure("matrix").data] == ["Heatmap"]
    arcs = [trace for trace in found.figure().data if trace.mode == "lines"]
    assert len(arcs) == sum(link.nvlinks > 0 for _, _, link in found.pairs())
    assert {trace.name: trace.line.width for trace in arcs} == {"two NVLinks": 5, "one NVLink": 3}
    (gpus,) = [trace for trace in found.figure().data if trace.mode == "markers+text"]
    assert list(gpus.text) == [gpu.name for gpu in found.gpus]
    with pytest.raises(UnknownName):
        found.figure("tree")


def test_the_command_line_reads_a_file_and_prints_json(capsys, tmp_path) -> None:
    assert main(["topology", "--from", str(RECORDED / "h100x4_nv6_4nic.txt"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"]["2"]["gpus"] == [0, 1]
    assert told["gb_per_s"]["GPU0-GPU1"] == pytest.approx(123.6)
    assert main(["topology", "--from", str(tmp_path / "none.txt")]) == 2
    assert "nvidia-smi topo -m > topo.txt" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_a_file_that_powershell_wrote_is_read(encoding, tmp_path) -> None:
    path = tmp_path / "topo.txt"
    path.write_text(COURSE, encoding=encoding, newline="\r\n")
    assert accel.topology(from_file=str(path)).links == read_matrix(COURSE).links


def test_a_machine_without_a_driver_has_no_links(monkeypatch) -> None:
    import pynvml

    def no_driver():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    found = accel.topology()
    assert str(found).startswith("No GPU (no NVIDIA driver answers here): there are no links to show.\n")
    assert sum(len(node.cpus) for node in found.nodes) == len(read_cpu_map().cpus)
    assert [part.kind for part in found.machine.parts] == ["socket"] * len(
        {node.socket for node in found.nodes}
    )


def test_where_nothing_tells_of_the_machine_a_sentence_says_so(tmp_path) -> None:
    nothing = replace(Topology((), ()), nodes=numa_nodes(tmp_path))
    assert "CPUs and network cards are not known: there is no /sys" in str(nothing)
    assert nothing.to_dict()["machine"]["parts"] == []


def matrix_of(gpus: int) -> str:
    """As many GPUs, all joined alike."""
    names = [f"GPU{number}" for number in range(gpus)]
    rows = [[name, *("X" if other == name else "SYS" for other in names)] for name in names]
    return "\n".join("\t".join(row) for row in (["", *names], *rows))


@pytest.mark.parametrize("gpus", [200, 1000])
def test_a_matrix_of_more_devices_than_any_machine_has_is_refused(gpus):
    with pytest.raises(AccelError, match=f"it names {gpus:,} devices, and 128 are the most"):
        read_matrix(matrix_of(gpus))


def test_the_largest_matrix_is_shown_and_its_groups_are_counted_before_they_are_looked_at():
    topology = read_matrix(matrix_of(128))
    assert "Best 2: " in str(topology)
    assert set(topology.to_dict()["best"]) == {"2", "3", "127", "128"}


@pytest.mark.parametrize("file", ["/dev/zero", "large.txt"])
def test_a_file_without_an_end_is_refused(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "large.txt").write_bytes(b"GPU0 " * 1_000_000)
    with pytest.raises(AccelError, match="larger than any matrix"):
        accel.topology(from_file=file)
