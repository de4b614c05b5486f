"""The course's CNN has the course's parameter counts, and trains."""

import pytest
import torch

from accel.errors import UnknownName
from accel.labs import CNN, load_model


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, 1_630_090),
        ({"channels": 3, "size": 32}, 2_122_186),
        ({"extra_layer": 256}, 1_758_858),
        ({"bias": False}, 1_629_472),
    ],
)
def test_the_cnn_has_as_many_parameters_as_the_course_says(arguments, expected):
    assert sum(parameter.numel() for parameter in CNN(**arguments).parameters()) == expected


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32)])
def test_logits_have_one_column_a_class_and_every_parameter_gets_a_gradient(channels, size):
    model = CNN(channels, size, classes=7, extra_layer=16)
    logits = model(torch.randn(2, channels, size, size))
    assert logits.shape == (2, 7)
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "classes", "expected"),
    [("densenet121", 1000, 7_978_856), ("resnet18", 10, 11_181_642), ("cnn", 10, 2_122_186)],
)
def test_models_by_name_have_as_many_parameters_as_the_course_says(name, classes, expected):
    with torch.device("meta"):
        model = load_model(name, classes=classes)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_a_model_by_another_name_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'resnet18'"):
        load_model("resnet8")
