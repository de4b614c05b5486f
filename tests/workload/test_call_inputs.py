"""What a model was called with is remembered as shapes, and can be made again."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import accel
from accel.workload.call_inputs import CallInputs, TensorShape
from accel.workload.module_calls import samples_of_call


def test_a_call_is_described_by_shapes_and_plain_values():
    inputs = CallInputs.of_call(
        torch.zeros(2, 3), [torch.ones(4, dtype=torch.long), 7], mask=None, batch={"x": torch.ones(1)}
    )
    assert str(inputs) == "(2, 3) float32, [(4,) int64, 7], mask: None, batch: {x: (1,) float32}"
    assert inputs.strange == ()


def test_what_cannot_be_described_is_named():
    assert CallInputs.of_call(torch.zeros(2), object()).strange == ("object",)


def test_no_tensor_is_kept_alive():
    tensor = torch.zeros(2, 3)
    gone = weakref.ref(tensor)
    inputs = CallInputs.of_call(tensor, nested=[tensor])
    del tensor
    gc.collect()
    assert gone() is None
    assert inputs.args == (TensorShape((2, 3), torch.float32, "cpu"),)


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.bool])
TENSORS = st.builds(lambda shape, dtype: torch.zeros(shape, dtype=dtype), SHAPES, DTYPES)
VALUES = st.recursive(
    TENSORS | st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=3), st.dictionaries(st.text(max_size=3), VALUES, max_size=2))
def test_a_call_made_again_has_the_same_description(args, kwargs):
    inputs = CallInputs.of_call(*args, **kwargs)
    assert (
        CallInputs.of_call(*inputs.filled(TensorShape.empty)[0], **inputs.filled(TensorShape.empty)[1])
        == inputs
    )


def test_the_workload_remembers_what_its_model_was_first_called_with():
    model = nn.Linear(4, 2)
    loader = DataLoader(TensorDataset(torch.randn(10, 4)), batch_size=5)
    namespace = {"model": model, "loader": loader, "optimizer": torch.optim.SGD(model.parameters())}
    workbench = accel.Workbench(namespace, spare_workers=0)
    workbench.profile("for (x,) in loader:\n    model(x).sum().backward()\n    optimizer.step()")
    roles = {role.name: role for role in workbench.workload.roles}
    assert str(roles["model"].inputs) == "(5, 4) float32"
    assert roles["optimizer"].inputs is None
    workbench.close()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("layout", "samples"), [(torch.strided, 0), (torch.jagged, 2)])
def test_a_model_that_is_called_with_a_nested_tensor_is_profiled(layout, samples):
    model = nn.Linear(4, 2)
    parts = [torch.randn(3, 4), torch.randn(5, 4)]
    namespace = {
        "model": model, "optimizer": torch.optim.SGD(model.parameters()), "torch": torch,
        "nested": torch.nested.nested_tensor(parts, layout=layout),
    }  # fmt: skip
    workbench = accel.Workbench(namespace, spare_workers=0)
    workbench.profile(
        "for _ in range(9):\n    torch.cat(model(nested).unbind()).sum().backward()\n    optimizer.step()"
    )
    (inputs,) = [role.inputs for role in workbench.workload.roles if role.name == "model"]
    assert inputs.strange == (type(namespace["nested"]).__name__,)
    assert workbench.workload.steps == 9
    assert samples_of_call(model, [namespace["nested"]]) == samples
    workbench.close()
