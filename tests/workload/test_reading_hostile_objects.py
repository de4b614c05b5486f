"""Objects of the user's are read without running their code, whatever their classes put in the way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from accel.workload.module_names import named_parts, parameters_in
from accel.workload.namespace_reads import attribute_of, attributes_of, functions_behind
from accel.workload.roles import names_by_id
from accel.workload.workload import is_of_kind, look_up


class Unwilling:
    """Answers nobody; `held` is there all the same."""

    def __init__(self):
        object.__setattr__(self, "held", 1)

    def __getattribute__(self, name):
        raise LookupError(name)

    __len__ = __bool__ = __eq__ = __repr__ = lambda *_: 1 / 0
    __hash__ = None


class Slotted:
    __slots__ = ("held",)


class NoDict:
    """A property in the place of its attributes raises."""

    __dict__ = property(lambda self: 1 / 0)


class OtherDict(NoDict):
    """A property in the place of its attributes gives something else."""

    __dict__ = property(lambda self: ["held"])


class Liar:
    """Says that it is a module."""

    __class__ = property(lambda self: nn.Linear)


class BadDict(dict):
    """Attributes as a dict whose methods raise."""

    items = values = keys = get = __iter__ = lambda *_: 1 / 0


class Plain:
    """Nothing in the way."""


def in_a_bad_dict():
    made = Plain()
    made.__dict__ = BadDict(held=1)
    return made


@pytest.mark.parametrize(
    ("make", "attributes"),
    [
        (lambda: SimpleNamespace(held=1), {"held": 1}),
        (in_a_bad_dict, {"held": 1}),
        (Unwilling, {"held": 1}),
        (Slotted, {}),
        (NoDict, {}),
        (OtherDict, {}),
        (lambda: 3, {}),
    ],
)
def test_attributes_are_read_past_the_class(make, attributes):
    value = make()
    assert attributes_of(value) == attributes
    assert all(attribute_of(value, name) is each for name, each in attributes.items())
    assert attribute_of(value, "no such name") is None
    assert list(functions_behind(value, {})) == []
    names_by_id({"value": value})


def test_attributes_are_a_copy():
    value = SimpleNamespace(held=1)
    attributes_of(value).clear()
    assert value.held == 1


@pytest.mark.parametrize(
    "modules", [["module_"], {"net": 1}, None, BadDict()], ids=["list", "dict", "none", "bad dict"]
)
def test_an_object_is_found_by_its_path_whatever_the_modules_of_its_owner_are(modules):
    model = nn.Linear(2, 2)
    trainer = SimpleNamespace(module_=model, _modules=modules)
    assert look_up({"trainer": trainer}, "trainer.module_") is model
    assert look_up({"trainer": trainer}, "trainer.other") is None
    assert look_up({}, "trainer.module_") is None


def test_a_layer_is_found_by_its_path():
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    assert look_up({"net": net}, "net.0.0") is net[0][0]


def test_what_says_that_it_is_a_module_fills_no_role():
    liar = Liar()
    assert isinstance(liar, nn.Module)
    assert not is_of_kind(liar, "models")
    assert is_of_kind(nn.Linear(2, 2), "models")


class Silent(nn.Module):
    """A model whose ways to its parts raise."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.again = self.body

    named_modules = modules = children = parameters = named_parameters = lambda *_, **__: 1 / 0


@pytest.mark.parametrize(
    "model",
    [
        nn.ReLU(),
        nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 1))),
        nn.Transformer(8, 2, 1, 1, 8),
    ],
    ids=lambda model: type(model).__name__,
)
def test_parts_and_parameters_are_those_that_torch_gives(model):
    model.register_module("shared", next(iter(model.children()), None))  # once more, or None
    model.register_parameter("none", None)
    assert list(named_parts(model)) == list(model.named_modules())
    assert [id(each) for each in parameters_in(model)] == [id(each) for each in model.parameters()]


def test_parts_and_parameters_are_found_where_the_model_gives_none():
    model = Silent()
    assert [path for path, _ in named_parts(model)] == ["", "body", "body.0", "body.1"]
    assert [each.shape for each in parameters_in(model)] == [torch.Size([2, 2]), torch.Size([2])]


def test_a_module_whose_modules_are_a_list_has_no_parts():
    model = nn.Linear(2, 2)
    model.__dict__["_modules"] = ["weight"]
    assert list(named_parts(model)) == [("", model)]
    assert len(list(parameters_in(model))) == 2
    model.__dict__["_parameters"] = ["weight"]
    assert list(parameters_in(model)) == []
