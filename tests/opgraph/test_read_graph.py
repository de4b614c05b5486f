"""A model becomes the operations it runs, with their modules, shapes and costs; nothing of the model changes."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
import torch
import torchvision
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune
from torch.utils.flop_counter import FlopCounterMode

from accel.errors import AccelError
from accel.labs import CNN
from accel.opgraph import read_graph
from tests.opgraph.small_models import Noisy, TakesADict, TakesTheSign, Tied, TwoInputs


def test_the_cnn_has_exactly_the_five_types_of_the_course():
    graph = read_graph(CNN(), torch.randn(64, 1, 28, 28))
    assert set(graph.op_types) == {"Conv", "MaxPool", "Relu", "Reshape", "Gemm"}
    assert [node.op for node in graph.nodes] == [
        "Conv", "Relu", "MaxPool", "Conv", "Relu", "MaxPool", "Reshape", "Gemm", "Gemm"
    ]  # fmt: skip


@pytest.mark.parametrize(("extra_layer", "parameters"), [(None, 1_630_090), (256, 1_758_858)])
def test_the_cnn_has_the_parameters_of_the_course(extra_layer, parameters):
    graph = read_graph(CNN(extra_layer=extra_layer), (64, 1, 28, 28))
    assert graph.parameters == graph.trainable == parameters
    assert sum(node.parameters for node in graph.nodes) == parameters
    assert sum(row.own for row in graph.modules) == parameters
    assert graph.parameter_bytes == 4 * parameters


def test_each_operation_knows_its_module_shape_and_where_its_data_is_from():
    nodes = read_graph(CNN(), (64, 1, 28, 28)).nodes
    assert [node.module for node in nodes] == [
        "conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "flatten", "linear1", "linear2"
    ]  # fmt: skip
    assert (nodes[0].shape, nodes[0].dtype, nodes[0].module_class) == ((64, 32, 28, 28), "float32", "Conv2d")
    assert [node.inputs for node in nodes] == [(), (0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)]


def test_flops_of_convolutions_and_linear_layers_are_those_of_torch():
    model, images = CNN().eval(), torch.randn(2, 1, 28, 28)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(images)
    graph = read_graph(model, images)
    assert sum(node.flops for node in graph.nodes if node.op in ("Conv", "Gemm")) == counter.get_total_flops()
    assert graph.without_formula == 0


def test_bytes_are_each_input_read_once_and_each_output_written_once():
    by_op = {node.op: node for node in read_graph(CNN(), (2, 1, 28, 28)).nodes}
    assert by_op["Reshape"].bytes == 0
    assert by_op["Gemm"].bytes == 4 * (2 * 512 + 512 * 10 + 10 + 2 * 10)


def test_resnet18_has_as_many_parameters_and_operations_as_it_has():
    model = torchvision.models.resnet18()
    graph = read_graph(model, (2, 3, 64, 64))
    assert graph.parameters == sum(parameter.numel() for parameter in model.parameters()) == 11_689_512
    assert graph.op_types == {
        "Conv": 20, "BatchNormalization": 20, "Relu": 17, "MaxPool": 1, "Add": 8, "GlobalAveragePool": 1, "Reshape": 1, "Gemm": 1
    }  # fmt: skip
    assert graph.without_formula == 0
    residual = next(node for node in graph.nodes if node.op == "Add")
    assert {graph.nodes[index].op for index in residual.inputs} == {"BatchNormalization", "MaxPool"}


def test_a_module_called_twice_has_two_operations_and_its_parameters_once():
    layer = nn.Linear(4, 4)
    graph = read_graph(nn.Sequential(layer, nn.ReLU(), layer), (2, 4))
    assert [node.module for node in graph.nodes] == ["0", "1", "0"]
    assert graph.parameters == 20


def test_tied_weights_count_once_and_the_table_says_where():
    graph = read_graph(Tied(), torch.zeros(2, 3, dtype=torch.long))
    assert graph.parameters == 400
    rows = {row.name: row for row in graph.modules}
    assert (rows["embedding"].own, rows["head"].own, rows["head"].shared) == (400, 0, 400)
    assert [node.parameter_names for node in graph.nodes] == [("embedding.weight",)] * 2


def test_what_prepares_weights_is_not_shown_and_their_parameters_are():
    model = nn.Sequential(nn.Linear(4, 4), nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    prune.l1_unstructured(model[0], "weight", 0.5)
    graph = read_graph(model, (2, 4))
    assert [node.op for node in graph.nodes] == ["Gemm", "Gemm"]
    assert [node.parameters for node in graph.nodes] == [20, 3 * 4 + 3 + 3]


@pytest.mark.parametrize("inplace", [False, True])
def test_dropout_is_not_shown_and_batch_normalisation_uses_its_averages(inplace):
    graph = read_graph(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5, inplace), nn.BatchNorm1d(4)), (2, 4))
    assert [node.op for node in graph.nodes] == ["Gemm", "BatchNormalization"]


def test_several_inputs_by_position_or_by_name():
    left, right = torch.randn(2, 4), torch.randn(2, 6)
    for inputs in ((left, right), {"left": left, "right": right}, [(2, 4), (2, 6)]):
        graph = read_graph(TwoInputs(), inputs)
        assert [node.op for node in graph.nodes].count("Gemm") == 2
        assert graph.nodes[-1].op == "Add"


def test_a_dict_that_is_one_argument():
    graph = read_graph(TakesADict(), {"features": torch.randn(2, 4), "mask": torch.ones(2, 1)})
    assert [node.op for node in graph.nodes] == ["Gemm", "Mul"]


def test_attention_and_recurrence_have_flops():
    encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    attention = next(node for node in read_graph(encoder, (2, 5, 16)).nodes if node.op == "Attention")
    assert attention.flops == 2 * (2 * 2 * 4 * 5 * 5 * 4)
    recurrent = read_graph(nn.LSTM(4, 8, batch_first=True), (2, 5, 4)).nodes[0]
    assert (recurrent.op, recurrent.flops) == ("LSTM", 2 * 2 * 5 * (4 * 8 * (4 + 8)))


def test_an_operation_without_a_known_name_or_formula_keeps_its_own_and_counts_as_unknown():
    graph = read_graph(nn.Sequential(nn.Linear(4, 4), nn.LogSigmoid()), (2, 4))
    assert [node.op for node in graph.nodes] == ["Gemm", "log_sigmoid"]
    assert graph.nodes[1].flops is None
    assert graph.without_formula == 1


def test_a_model_that_looks_at_its_data_is_recorded_on_a_batch_and_the_graph_says_why():
    graph = read_graph(TakesTheSign(), torch.randn(2, 4))
    assert [node.op for node in graph.nodes] == ["Gemm", "ReduceSum", "Greater", "Tanh"]
    assert [node.module for node in graph.nodes] == ["linear", "", "", ""]
    assert graph.nodes[0].parameters == graph.parameters == 20
    assert "depends on the values in a tensor" in graph.notes[0]
    assert re.search(r"\(small_models.py, line \d+, in forward\)", graph.notes[0])


def test_the_same_model_without_a_batch_is_refused_with_the_reason_and_what_to_do():
    with pytest.raises(AccelError, match="depends on the values in a tensor") as caught:
        read_graph(TakesTheSign(), (2, 4))
    assert "accel.graph(model, batch)" in caught.value.do


@pytest.mark.parametrize("inputs", [(64, 3, 28, 28), torch.randn(64, 3, 28, 28)])
def test_inputs_that_do_not_fit_are_refused_with_torchs_own_words(inputs):
    with pytest.raises(AccelError, match="to have 1 channels, but got 3 channels"):
        read_graph(CNN(), inputs)


def test_lazy_layers_are_refused():
    with pytest.raises(AccelError, match="Call the model on one batch first"):
        read_graph(nn.Sequential(nn.LazyLinear(4)), (2, 4))


def test_a_model_that_cannot_be_copied_is_refused():
    model = nn.Sequential(nn.Linear(4, 4))
    model.generator = (number for number in range(3))
    with pytest.raises(AccelError, match="cannot be copied"):
        read_graph(model, (2, 4))


@pytest.mark.parametrize("inputs", [(2, 4), torch.randn(2, 4)])
def test_nothing_of_the_model_changes_and_no_random_number_is_used(capsys, inputs):
    model, called = Noisy(), []
    model.linear.register_forward_hook(lambda *_: called.append(1))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    graph = read_graph(model, inputs)
    assert [node.op for node in graph.nodes][:2] == ["Gemm", "BatchNormalization"]
    assert model.training
    assert (model.calls, model.cache, called) == (0, [], [])
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch_state, torch.get_rng_state())
    assert random.getstate() == python_state
    assert capsys.readouterr() == ("", "")


def test_recording_a_batch_leaves_the_model_alone_too():
    class NoisySign(Noisy):
        def forward(self, features):
            features = super().forward(features)
            return features if features.sum() > 0 else -features

    model, features = NoisySign(), torch.randn(2, 4)
    given, state = features.clone(), torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    graph = read_graph(model, features)
    assert graph.notes
    assert (model.calls, model.cache, model.training) == (0, [], True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(features, given)
    assert torch.equal(state, torch.get_rng_state())


def test_a_compiled_model_is_read_as_the_model_that_was_compiled():
    model = CNN()
    graph = read_graph(torch.compile(model), (2, 1, 28, 28))
    assert graph.model_name == "CNN"
    assert graph.nodes[0].module == "conv1"


def test_a_graph_does_not_keep_the_weights_alive():
    graph = read_graph(CNN(), (2, 1, 28, 28))
    assert graph.origin.model() is None
    assert all(
        type(parameter.data).__name__ == "FakeTensor" for parameter in graph.origin.double.parameters()
    )


def test_a_model_on_the_meta_device_needs_no_memory():
    with torch.device("meta"):
        model = torchvision.models.vit_b_16()
    assert read_graph(model, (64, 3, 224, 224)).parameters == 86_567_656


def test_a_model_in_data_parallel_is_read_as_itself():
    assert read_graph(nn.DataParallel(nn.Linear(4, 4)), (2, 4)).model_name == "Linear"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("inputs", [(64, 1, 28, 28), torch.randn(64, 1, 28, 28)])
def test_a_model_on_a_gpu_is_read_from_shapes_or_a_batch_wherever_it_lies(inputs):
    model = CNN().cuda()
    state, allocated = torch.cuda.get_rng_state(), torch.cuda.memory_allocated()
    graph = read_graph(model, inputs)
    assert graph.op_types == read_graph(CNN(), inputs).op_types
    assert torch.equal(state, torch.cuda.get_rng_state())
    assert torch.cuda.memory_allocated() == allocated


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_batch_is_recorded_on_the_gpu_of_the_model():
    assert read_graph(TakesTheSign().cuda(), torch.randn(2, 4)).nodes[0].op == "Gemm"


WIDTHS = st.lists(st.integers(1, 12), min_size=2, max_size=6)


@settings(max_examples=25, deadline=None)
@given(widths=WIDTHS, batch=st.integers(1, 5), bias=st.booleans())
def test_parameters_and_flops_of_any_chain_of_linear_layers_are_their_formula(widths, batch, bias):
    pairs = list(pairwise(widths))
    layers = [layer for a, b in pairs for layer in (nn.Linear(a, b, bias=bias), nn.ReLU())]
    graph = read_graph(nn.Sequential(*layers), (batch, widths[0]))
    assert graph.op_types == {"Gemm": len(pairs), "Relu": len(pairs)}
    assert (
        graph.parameters
        == sum(a * b + b * bias for a, b in pairs)
        == sum(node.parameters for node in graph.nodes)
    )
    assert graph.flops == sum(2 * batch * a * b + batch * b for a, b in pairs)
