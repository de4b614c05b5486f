"""What one more layer would cost, without touching the model."""

from __future__ import annotations

import pytest
import torch
import torchvision
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from accel.errors import AccelError, UnknownName
from accel.labs import CNN
from accel.opgraph import read_graph
from accel.opgraph.layer_text import EXAMPLES, layer_of, read


@pytest.mark.parametrize(
    "layer", ["Linear(512→256)", "Linear(512 -> 256)", "Linear(256)", "nn.Linear(512, 256)", "Linear(→256)"]
)
def test_the_course_s_question_has_the_course_s_answer(layer):
    answer = read_graph(CNN(), (64, 1, 28, 28)).what_if(layer, after="linear1")
    assert (answer.before.parameters, answer.after.parameters) == (1_630_090, 1_758_858)
    assert answer.changes == ("linear2 takes 256 in place of 512: it would start with new weights.",)
    assert [node.op for node in answer.after.nodes][-3:] == ["Gemm", "Gemm", "Gemm"]


def test_the_answer_is_that_of_the_model_with_that_layer():
    answer = read_graph(CNN(), (64, 1, 28, 28)).what_if(nn.Linear(512, 256), after="linear1")
    built = read_graph(CNN(extra_layer=256), (64, 1, 28, 28))
    assert (answer.after.parameters, answer.after.flops, answer.after.bytes) == (
        built.parameters,
        built.flops,
        built.bytes,
    )


def test_the_model_its_mode_and_the_random_numbers_stay_as_they_are():
    model, layer = CNN(), nn.Linear(512, 256)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    graph, state = read_graph(model, (2, 1, 28, 28)), torch.get_rng_state()
    for added in ("Linear(256)", layer):
        graph.what_if(added, after="linear1")
    assert "added" not in str(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.linear2.in_features == 512
    assert model.training
    assert layer.training
    assert torch.equal(state, torch.get_rng_state())
    assert graph.parameters == 1_630_090
    assert str(graph.what_if("ReLU", after="linear1").before) == str(graph)


def test_a_linear_layer_behind_a_flattened_convolution_is_fitted():
    answer = read_graph(CNN(), (2, 1, 28, 28)).what_if("Conv2d(→32, 3, padding=1)", after="pool2")
    assert answer.changes == ("linear1 takes 1568 in place of 3136: it would start with new weights.",)
    fewer = 512 * 1568
    assert answer.after.parameters - answer.before.parameters == 64 * 32 * 9 + 32 - fewer


def test_normalisation_that_follows_is_fitted_too():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.LayerNorm(8), nn.Linear(8, 2))
    answer = read_graph(model, (3, 4)).what_if("Linear(6)", after="0")
    assert [change.split(" takes ")[0] for change in answer.changes] == ["1", "2", "3"]
    assert answer.after.parameters == (4 * 8 + 8) + (8 * 6 + 6) + 2 * 6 + 2 * 6 + (6 * 2 + 2)


def test_a_layer_after_a_block_or_at_the_end():
    graph = read_graph(nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)), (3, 4))
    assert [node.op for node in graph.what_if("Linear(5)", after="0").after.nodes] == [
        "Gemm",
        "Relu",
        "Gemm",
        "Gemm",
    ]
    assert graph.what_if("Softmax(dim=1)", after="1").after.nodes[-1].op == "Softmax"
    assert graph.what_if("Linear(5)", after="0").after.parameters == 40 + 45 + 12


def test_the_first_result_of_a_recurrent_layer_is_what_the_added_layer_takes():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.lstm(x)[0])

    answer = read_graph(Recurrent(), (2, 5, 4)).what_if("Linear(8→3)", after="lstm")
    assert answer.changes == ("head takes 3 in place of 8: it would start with new weights.",)


def test_a_width_that_a_residual_connection_cannot_take_is_refused():
    graph = read_graph(torchvision.models.resnet18(), (2, 3, 64, 64))
    with pytest.raises(AccelError, match="residual connection has to keep the width"):
        graph.what_if("Conv2d(→32, 3, padding=1)", after="layer1.0.bn2")
    assert graph.what_if("Conv2d(64→64, 3, padding=1)", after="layer1.0.bn2").changes == ()


@pytest.mark.parametrize(
    ("layer", "after", "because"),
    [
        ("Linear(500→256)", "linear1", "512"),
        ("Linaer(256)", "linear1", "Did you mean Linear"),
        ("Linear(x)", "linear1", "not just numbers"),
        ("Linear(256", "linear1", "does not read as a layer"),
        ("Linear(256, nonsense=1)", "linear1", "torch.nn.Linear refuses"),
        ("__import__('os')", "linear1", "does not read as a layer"),
    ],
)
def test_a_layer_that_cannot_be_added_is_refused_with_the_reason(layer, after, because):
    with pytest.raises(AccelError, match=because) as caught:
        read_graph(CNN(), (2, 1, 28, 28)).what_if(layer, after=after)
    assert caught.value.do


def test_a_place_that_is_not_there_or_never_called_is_refused():
    class UsesOnlyTheWeight(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return x @ self.linear.weight

    with pytest.raises(UnknownName, match="Did you mean 'linear'"):
        read_graph(UsesOnlyTheWeight(), (2, 4)).what_if("ReLU", after="liner")
    with pytest.raises(AccelError, match="never calls that module"):
        read_graph(UsesOnlyTheWeight(), (2, 4)).what_if("ReLU", after="linear")


def test_the_answer_is_a_table_in_every_form():
    answer = read_graph(CNN(), (64, 1, 28, 28)).what_if("Linear(256)", after="linear1")
    assert "1,630,090  1,758,858" in str(answer)
    assert "+128,768" in answer._repr_mimebundle_()["text/html"]
    assert answer.to_dict()["figures"]["parameters"] == {"before": 1_630_090, "after": 1_758_858}
    assert answer.to_dataframe()["after"][0] == 1_758_858


def test_a_layer_is_read_word_by_word():
    assert read("Conv2d(64→32, 3, padding='same')") == ("Conv2d", [64, 32, 3], {"padding": "same"}, False)
    assert read(" torch.nn.ReLU ") == ("ReLU", [], {}, False)


@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from(["→", "->", ", ", " → "]))
def test_widths_are_read_back(before, after, arrow):
    layer = layer_of(f"Linear({before}{arrow}{after})", torch.zeros(2, before))
    assert (layer.in_features, layer.out_features) == (before, after)


WORDS = st.sampled_from(
    ["Linear", "ReLU", "Conv2d", "(", ")", "→", "->", "3", ",", "=", "'", "x", " ", "[", "]", "\n", "-"]
)


@given(st.lists(WORDS | st.text(max_size=5), max_size=12).map("".join))
def test_any_text_is_read_or_refused_as_ours(text):
    try:
        name, positional, keywords, _ = read(text)
    except AccelError as error:
        refused = error.do
    else:
        refused = ""
        assert name.isidentifier()
        assert isinstance(positional, list)
        assert all(isinstance(keyword, str) for keyword in keywords)
    assert refused in ("", EXAMPLES)
