"""The ONNX file of a model: the operations of the graph, and the model's own answers."""

from __future__ import annotations

import sys

import pytest
import torch

from accel.errors import AccelError
from accel.labs import CNN
from accel.opgraph import read_graph
from tests.opgraph.small_models import TakesTheSign, Tied, TwoInputs

onnx = pytest.importorskip("onnx", reason='writing ONNX files needs: pip install "accel-workbench[onnx]"')
pytest.importorskip("onnxscript", reason='writing ONNX files needs: pip install "accel-workbench[onnx]"')


def written(model, inputs, path):
    """The file's contents."""
    return onnx.load(read_graph(model, inputs).to_onnx(path))


@pytest.mark.parametrize("extra_layer", [None, 256])
def test_the_file_of_the_cnn_has_the_operations_of_the_graph_in_their_order(tmp_path, extra_layer):
    model = CNN(extra_layer=extra_layer)
    file = written(model, (2, 1, 28, 28), tmp_path / "cnn.onnx")
    assert [node.op_type for node in file.graph.node] == [
        node.op for node in read_graph(model, (2, 1, 28, 28)).nodes
    ]
    assert {node.op_type for node in file.graph.node} == {"Conv", "MaxPool", "Relu", "Reshape", "Gemm"}


def test_the_file_answers_as_the_model_does_in_evaluation(tmp_path):
    from onnx.reference import ReferenceEvaluator

    model, images = CNN(), torch.randn(2, 1, 28, 28)
    read_graph(model, images).to_onnx(tmp_path / "cnn.onnx")
    (answer,) = ReferenceEvaluator(str(tmp_path / "cnn.onnx")).run(None, {"images": images.numpy()})
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(answer), model(images), atol=1e-4)


def test_tied_weights_and_several_inputs_are_written_too(tmp_path):
    tied = written(Tied(), torch.zeros(2, 3, dtype=torch.long), tmp_path / "tied.onnx")
    assert [node.op_type for node in tied.graph.node] == ["Gather", "MatMul"]
    two = written(TwoInputs(), [(2, 4), (2, 6)], tmp_path / "two.onnx")
    assert [value.name for value in two.graph.input] == ["left", "right"]


def test_writing_changes_neither_the_model_nor_a_random_number(tmp_path, capsys):
    model = CNN()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    graph, state = read_graph(model, (2, 1, 28, 28)), torch.get_rng_state()
    assert graph.to_onnx(tmp_path / "model.onnx") == tmp_path / "model.onnx"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    assert capsys.readouterr() == ("", "")


def test_a_model_that_torch_cannot_export_is_refused_with_the_reason(tmp_path):
    model = TakesTheSign()
    with pytest.raises(AccelError, match="depends on the values in a tensor"):
        read_graph(model, torch.randn(2, 4)).to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_gone_is_refused(tmp_path):
    graph = read_graph(CNN(), (2, 1, 28, 28))
    with pytest.raises(AccelError, match="Keep the model in a variable"):
        graph.to_onnx(tmp_path / "model.onnx")


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_without_its_packages_the_error_says_what_to_install(package, monkeypatch, tmp_path):
    model = CNN()
    monkeypatch.setitem(sys.modules, package, None)  # what Python itself takes for "cannot be imported"
    with pytest.raises(AccelError, match=rf'no {package}.* pip install "accel-workbench\[onnx\]"'):
        read_graph(model, (2, 1, 28, 28)).to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
