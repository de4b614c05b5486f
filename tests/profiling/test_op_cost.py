"""FLOPs and bytes from recorded shapes, against counting by hand and against torch's own counter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
import torch
import torchvision
from torch import nn
from torch.autograd.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from accel.labs.models import CNN
from accel.profiling.contractions import CONTRACTIONS
from accel.profiling.device_work import Copied
from accel.profiling.kineto_columns import read_columns
from accel.profiling.op_cost import read_op_costs
from accel.profiling.op_formulas import call_cost
from accel.profiling.op_inputs import OpInputs, TensorInput, TensorList
from accel.profiling.op_table import read_op_table
from accel.profiling.profiled_events import read_events
from tests.profiling.recorded_event import RecordedEvent

BATCH = 8
TELLS_LISTS = hasattr(torch._C._autograd._KinetoEvent, "structured_input_shapes")
CNN_MULTIPLY_ADDS = {
    "conv1": BATCH * 28 * 28 * 32 * 9 * 1,
    "conv2": BATCH * 14 * 14 * 64 * 9 * 32,
    "linear1": BATCH * 3136 * 512,
    "linear2": BATCH * 512 * 10,
}


def costs_of(work, **flags):
    """The costs of everything that `work` runs."""
    with profile(use_kineto=True, record_shapes=True) as profiler, torch.backends.mkldnn.flags(**flags):
        work()
    return read_op_costs(read_events(read_columns(profiler.kineto_results.events(), with_inputs=True)))


def contraction_flops(costs):
    return sum(cost.flops for cost in costs if cost.op in CONTRACTIONS)


def training(model, images):
    return lambda: model(images).float().sum().backward()


def test_forward_of_the_course_cnn_costs_what_counting_by_hand_gives(profiled):
    torch.manual_seed(0)
    model, images = CNN(), torch.randn(BATCH, 1, 28, 28)
    window = profiled(lambda: model(images), shapes=True)
    costs = read_op_costs(read_events(read_columns(window.events, with_inputs=True)))
    found = dict.fromkeys(CNN_MULTIPLY_ADDS, 0.0)
    for cost in costs:
        if cost.op in CONTRACTIONS:
            found[cost.module] += cost.flops
    assert found == {name: 2 * count for name, count in CNN_MULTIPLY_ADDS.items()}


@pytest.mark.parametrize("is_onednn", [True, False])
def test_training_costs_the_same_whichever_kernels_run(is_onednn):
    model, images = CNN(), torch.randn(BATCH, 1, 28, 28)
    costs = costs_of(training(model, images), enabled=is_onednn)
    by_hand = 6 * sum(CNN_MULTIPLY_ADDS.values()) - 2 * CNN_MULTIPLY_ADDS["conv1"]  # images need no gradient
    assert contraction_flops(costs) == by_hand


MODELS = {
    "residual network": (torchvision.models.resnet18, (2, 3, 64, 64)),
    "one dimension": (lambda: nn.Conv1d(32, 4, 3, padding=1, stride=2), (2, 32, 9)),
    "three dimensions": (lambda: nn.Conv3d(1, 4, 3, dilation=2), (2, 1, 9, 9, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1), (2, 8, 6, 6)),
    "transformer": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (2, 6, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_contractions_equal_the_flop_counter_of_torch(name):
    build, shape = MODELS[name]
    model, images = build(), torch.randn(shape)
    with FlopCounterMode(display=False) as counter:
        training(model, images)()
    costs = costs_of(training(model, images))
    assert contraction_flops(costs) == counter.get_total_flops() > 0


def test_grouped_convolution_costs_its_own_channels_only():
    layer, images = nn.Conv2d(8, 8, 3, groups=8, bias=False), torch.randn(2, 8, 6, 6)
    assert contraction_flops(costs_of(lambda: layer(images))) == 2 * (2 * 8 * 4 * 4) * 9
    assert contraction_flops(costs_of(training(layer, images))) == 2 * 2 * (2 * 8 * 4 * 4) * 9


def test_fused_attention_counts_its_two_matrix_products():
    query = torch.randn(2, 4, 6, 8)
    costs = costs_of(lambda: nn.functional.scaled_dot_product_attention(query, query, query))
    assert contraction_flops(costs) == 2 * (2 * 2 * 4 * 6 * 6 * 8)


def test_inference_mode_costs_as_much_as_grad_mode():
    model, images = CNN(), torch.randn(BATCH, 1, 28, 28)
    with torch.inference_mode():
        costs = costs_of(lambda: model(images))
    assert contraction_flops(costs) == 2 * sum(CNN_MULTIPLY_ADDS.values())


def test_autocast_halves_the_bytes_and_names_the_dtype():
    layer, rows = nn.Linear(64, 64, bias=False), torch.randn(64, 64)

    def product(dtype):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            return next(cost for cost in costs_of(lambda: layer(rows)) if cost.op in CONTRACTIONS)

    full, half = product("float32"), product("bfloat16")
    assert (full.dtype, half.dtype) == ("float32", "bfloat16")
    assert full.bytes == 3 * 64 * 64 * 4 == 2 * half.bytes
    assert full.flops == half.flops


def test_an_operation_that_only_calls_others_costs_nothing_and_elementwise_work_counts_once():
    numbers = torch.randn(1000)
    costs = costs_of(lambda: torch.relu(numbers))
    known = {cost.op: (cost.flops, cost.bytes) for cost in costs}
    assert known["aten::relu"] == (0, 0)
    assert known["aten::clamp_min"] == (1000, 8000)


@pytest.mark.skipif(not TELLS_LISTS, reason="torch before 2.9 records no shapes of tensors in lists")
def test_a_fused_optimizer_is_known_and_moves_its_state():
    model = nn.Linear(10, 10)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.randn(2, 10)).sum().backward()
    step = next(cost for cost in costs_of(optimizer.step) if "fused" in cost.op)
    assert step.flops == 14 * 110
    assert step.bytes > 7 * 4 * 110  # parameters, gradients and two moments read; three of them written
    assert "tensors" in step.shapes


def test_an_unknown_operation_is_said_to_be_unknown():
    costs = costs_of(lambda: torch.linalg.qr(torch.randn(8, 8)))
    unknown = next(cost for cost in costs if cost.op == "aten::linalg_qr")
    assert (unknown.flops, unknown.bytes) == (None, None)
    assert "not known" in str(unknown)


def test_self_times_are_those_of_the_rows_and_flops_are_of_modules(profiled, loop):
    window = profiled(lambda: loop.run(9), shapes=True)
    events = read_events(read_columns(window.events, with_inputs=True))
    costs, rows = read_op_costs(events), read_op_table(events).rows
    for op in ("aten::mkldnn_convolution", "aten::addmm", "aten::max_pool2d_with_indices"):
        expected = sum(row.self_ms for row in rows if row.op == op)
        assert sum(cost.self_ms for cost in costs if cost.op == op) == pytest.approx(expected)
    conv2 = Counter()
    for cost in costs:
        if cost.module == "conv2":
            conv2[cost.phase] += cost.flops or 0
    assert conv2["backward"] > conv2["forward"] > 2 * 4 * 8 * 36 * 6 * 6 / 2


@dataclass
class RecordedOp(RecordedEvent):
    """An operation with the inputs that the profiler records."""

    shapes: tuple = ()

    def structured_input_shapes(self):
        return [list(shape) for shape in self.shapes]

    def dtypes(self):
        return ["c10::Half" for _ in self.shapes]

    def concrete_inputs(self):
        return [None for _ in self.shapes]


def test_work_on_a_gpu_is_timed_by_the_kernels_that_the_operation_launched():
    launch = {"number": 50, "linked": 3}
    events = [
        RecordedOp("aten::matmul", 0, 100, number=2, shapes=((64, 32), (32, 16))),
        RecordedOp("aten::mm", 10, 50, number=3, shapes=((64, 32), (32, 16))),
        RecordedOp("cudaLaunchKernel", 15, 20, **launch),
        RecordedOp("gemm", 70, 9000, on_device=1, **launch),
    ]
    (product,) = (
        cost for cost in read_op_costs(read_events(read_columns(events, with_inputs=True))) if cost.flops
    )
    assert (product.op, product.device, product.dtype) == ("aten::mm", "cuda:0", "float16")
    assert type(product.device_ms) is float
    assert product.device_ms == product.ms == pytest.approx(9e-3)
    assert product.self_ms < product.ms
    assert product.flops == 2 * 64 * 32 * 16
    assert product.bytes == 2 * (64 * 32 + 32 * 16 + 64 * 16)


def test_a_list_of_tensors_whose_shapes_torch_does_not_tell_makes_the_cost_unknown():
    inputs = OpInputs("aten::_fused_sgd_", (TensorList(()), TensorList(()), TensorList(())))
    assert call_cost(inputs) is None
    assert str(inputs).startswith("3 lists of tensors, shapes not recorded")
    told = TensorList((TensorInput((10,), "float32", 4),))
    assert call_cost(OpInputs("aten::_fused_sgd_", (told, told, TensorList(())))).flops == 50


def test_compiled_code_is_of_unknown_cost_and_what_it_calls_is_known():
    events = [
        RecordedOp("## Call CompiledFxGraph fcb4t32h ##", 0, 900),
        RecordedOp("aten::mm", 100, 300, shapes=((64, 32), (32, 16), (64, 16))),
    ]
    compiled, product = read_op_costs(read_events(read_columns(events, with_inputs=True)))
    assert (compiled.op, compiled.flops, compiled.bytes) == ("CompiledFxGraph", None, None)
    assert compiled.self_ms == pytest.approx(600e-6)
    assert product.flops == 2 * 64 * 32 * 16


def test_without_recorded_shapes_there_are_no_costs(profiled, loop):
    assert read_op_costs(read_events(read_columns(profiled(lambda: loop.run(3)).events))) == ()
    assert read_op_costs(None) == ()


@pytest.mark.parametrize(
    ("copied", "told"),
    [
        ("Memcpy HtoD (Pageable -> Device)", Copied("host to device", "pageable")),
        ("Memcpy DtoH (Device -> Pinned)", Copied("device to host", "pinned")),
        ("Memset (Device)", None),
    ],
)
def test_a_copy_knows_between_which_kinds_of_memory_it_went(copied, told):
    launch, kind = {"number": 50, "linked": 3}, "gpu_memset" if told is None else "gpu_memcpy"
    events = [
        RecordedOp("aten::to", 0, 100, number=2, shapes=((64, 32),)),
        RecordedOp("aten::copy_", 10, 50, number=3, shapes=((64, 32), (64, 32))),
        RecordedOp("cudaMemcpyAsync", 15, 20, **launch),
        RecordedOp(copied, 70, 9000, on_device=1, kind=kind, **launch),
    ]
    costs = {cost.op: cost for cost in read_op_costs(read_events(read_columns(events, with_inputs=True)))}
    assert costs["aten::copy_"].copied == told
    assert all(cost.copied is None for op, cost in costs.items() if op != "aten::copy_")
