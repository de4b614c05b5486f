"""`%accel graph` and `accel.graph`: the workload's model with the shapes and times of the profiled cell."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import accel
from accel.commands import Place, command_named, parse
from accel.errors import AccelError, UnknownName
from accel.labs import CNN

CELL = """
for images, labels in loader:
    optimizer.zero_grad()
    criterion(model(images), labels).backward()
    optimizer.step()
"""


def run(line, workbench):
    return command_named("graph").run(parse(line), Place(workbench))


@pytest.fixture(scope="module")
def workbench():
    torch.manual_seed(0)
    images, labels = torch.randn(40, 1, 28, 28), torch.randint(10, (40,))
    model = CNN()
    namespace = {
        "model": model, "criterion": nn.CrossEntropyLoss(), "optimizer": torch.optim.Adam(model.parameters()),
        "loader": DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True), "three": images[:3],
        "other": nn.Linear(4, 2), "number": 3,
    }  # fmt: skip
    workbench = accel.Workbench(namespace, spare_workers=0)
    workbench.profile(CELL)
    yield workbench
    workbench.close()


def test_without_a_name_it_is_the_workloads_model_with_the_profiled_shapes_and_times(workbench):
    graph = run("graph", workbench)
    assert graph.inputs == "(8, 1, 28, 28) float32"
    assert {node.op for node in graph.nodes} == {"Conv", "MaxPool", "Relu", "Reshape", "Gemm"}
    timed = {node.module: node.self_ms for node in graph.nodes}
    assert all(timed[name] > 0 for name in ("conv1", "relu1", "pool1", "conv2", "linear1", "linear2"))
    measured = sum(
        row.self_ms
        for row in workbench.profile_result.rows
        if row.phase == "forward" and row.module == "conv2"
    )
    assert timed["conv2"] == pytest.approx(measured)


def test_neither_the_loader_nor_a_random_number_is_touched(workbench):
    iterator = iter(workbench.namespace["loader"])
    next(iterator)
    state = torch.get_rng_state()
    run("graph", workbench)
    run("graph model --add Linear(256) --after linear1", workbench)
    assert torch.equal(state, torch.get_rng_state())
    assert len(list(iterator)) == 4
    assert workbench.namespace["model"].training


def test_a_variable_can_be_what_the_model_is_called_with(workbench):
    graph = run("graph model three", workbench)
    assert graph.inputs == "(3, 1, 28, 28) float32"
    assert all(node.self_ms is None for node in graph.nodes)


def test_one_more_layer_is_an_option(workbench):
    answer = run("graph --add Linear(512→256) --after linear1", workbench)
    assert answer.after.parameters == 1_758_858


@pytest.mark.parametrize(
    ("line", "because"),
    [
        ("graph modle", "Did you mean 'model'"),
        ("graph number", "number is of class int, not a model"),
        ("graph other", "no profiled cell called it"),
        ("graph --add ReLU", "--after says where"),
        ("graph --after linear1", "--add says what"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_what_to_do(workbench, line, because):
    with pytest.raises(AccelError, match=because) as caught:
        run(line, workbench)
    assert caught.value.do


def test_without_a_workload_a_model_needs_its_inputs():
    workbench = accel.Workbench({"model": CNN()}, spare_workers=0)
    with pytest.raises(AccelError, match="no profiled cell trains one"):
        workbench.graph()
    with pytest.raises(AccelError, match="%accel graph model images"):
        workbench.graph("model")
    with pytest.raises(UnknownName):
        workbench.graph("model", "images")
    assert workbench.graph("model", (2, 1, 28, 28)).parameters == 1_630_090


def test_the_function_takes_the_objects_themselves():
    assert accel.graph(CNN(), torch.zeros(2, 1, 28, 28)).parameters == 1_630_090
    assert (
        accel.graph(CNN(), (2, 1, 28, 28), add="Linear(256)", after="linear1").after.parameters == 1_758_858
    )
