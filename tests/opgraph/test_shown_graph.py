"""How a graph is shown: text, HTML, dict, table, figure; and its measured times."""

from __future__ import annotations

import json

import pytest
from torch import nn

from accel.labs import CNN
from accel.opgraph import read_graph
from accel.units import scaled
from accel.views.op_graph_figure import SIDESTEP, layout


class Named(nn.Module):
    """A module whose name is markup."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("<b>bold</b>", nn.Linear(4, 4))

    def forward(self, x):
        return self.get_submodule("<b>bold</b>")(x)


@pytest.fixture(scope="module")
def graph():
    return read_graph(CNN(), (64, 1, 28, 28))


def test_the_text_has_a_head_and_a_line_for_each_operation(graph):
    lines = str(graph).splitlines()
    assert lines[0] == "CNN, forward of (64, 1, 28, 28) float32 in evaluation mode"
    assert lines[1] == "9 operations of 5 types: Conv ×2, Relu ×2, MaxPool ×2, Reshape, Gemm ×2"
    assert lines[2].startswith("1,630,090 parameters (6.22 MiB); 702 MFLOP")
    conv = next(line for line in lines if "conv2" in line).split()
    assert conv[:6] == ["4", "Conv", "conv2", "64×64×14×14", "float32", "18,496"]


def test_a_long_graph_is_cut_in_the_text_and_says_so():
    long = read_graph(nn.Sequential(*[nn.ReLU() for _ in range(250)]), (2, 4))
    assert "… and 50 more" in str(long)
    assert len(long.to_dataframe()) == 250
    assert "190 more operations" in long._repr_mimebundle_()["text/html"]


def test_frozen_parameters_are_told():
    model = CNN()
    model.conv1.requires_grad_(False)
    graph = read_graph(model, (2, 1, 28, 28))
    assert graph.trainable == 1_630_090 - 320
    assert "320 of them frozen" in str(graph)


def test_the_page_needs_no_style_svg_or_script_and_escapes_names():
    page = read_graph(Named(), (2, 4))._repr_mimebundle_()["text/html"]
    assert not any(tag in page for tag in ("<style", "<svg", "<script", "<b>bold"))
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_the_dict_is_json_and_the_table_has_a_row_for_each_operation(graph):
    told = json.loads(json.dumps(graph.to_dict()))
    assert (told["parameters"], told["op_types"]["Conv"], len(told["nodes"])) == (1_630_090, 2, 9)
    assert list(graph.to_dataframe()["op"]) == [node.op for node in graph.nodes]


def test_the_drawing_puts_each_operation_below_what_it_takes_its_data_from(graph):
    places = layout(graph.nodes)
    assert all(
        places[i][1] < places[source][1] for i, node in enumerate(graph.nodes) for source in node.inputs
    )
    assert len(set(places)) == len(places)
    figure = graph.figure()
    drawn = [text for trace in figure.data[1:] for text in trace.text]
    assert sorted(drawn) == sorted(f" {node.op} {node.module}" for node in graph.nodes)
    assert [trace.name for trace in figure.data[1:]] == ["Conv", "Relu", "MaxPool", "Reshape", "Gemm"]
    assert "&lt;b&gt;" in read_graph(Named(), (2, 4)).figure().to_json()


def test_a_residual_connection_is_drawn_beside_what_it_skips():
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            return self.second(x).relu() + x

    lines = read_graph(Residual(), (2, 4)).figure().data[0]
    assert {x for x in lines.x if x is not None} == {0.0, -SIDESTEP}
    assert len(lines.x) == len(lines.y) == 3 * 3 + 5


def test_measured_times_go_to_the_only_operation_that_computes_in_a_module(graph):
    timed = graph.with_times({"conv1": 2.5, "flatten": 0.1, "(CNN)": 0.4})
    assert [node.self_ms for node in timed.nodes if node.module in ("conv1", "relu1")] == [2.5, None]
    assert {row.label: row.self_ms for row in timed.modules if row.self_ms} == {
        "(CNN)": 0.4,
        "conv1": 2.5,
        "flatten": 0.1,
    }
    assert "self ms" in str(timed)
    assert "self ms" not in str(graph)


def test_a_module_with_two_computing_operations_keeps_its_time_to_the_table():
    class Both(nn.Module):
        def forward(self, x):
            return (x.relu() + 1).reshape(-1)

    timed = read_graph(nn.Sequential(Both()), (2, 4)).with_times({"0": 1.5})
    assert [node.self_ms for node in timed.nodes] == [None, None, None]
    assert timed.modules[1].self_ms == 1.5


@pytest.mark.parametrize(
    ("count", "unit", "shown"),
    [
        (702_000_000, "FLOP", "702 MFLOP"),
        (28_900_000, "", "28.9 M"),
        (512, "B", "512 B"),
        (0, "", "0"),
        (1234, "", "1.23 k"),
    ],
)
def test_counts_are_scaled(count, unit, shown):
    assert scaled(count, unit) == shown
