"""matmul_precision, reduced_precision_reductions and cudnn_benchmark: switches of torch for the whole process."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from small_training import training
from torch import nn

from accel.accelerations.cudnn_benchmark import CudnnBenchmark
from accel.accelerations.matmul_precision import MatmulPrecision
from accel.accelerations.reduced_precision_reductions import ReducedPrecisionReductions
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.numerics import held_settings
from accel.techniques.numerics.held_settings import is_held, settings_held
from accel.workload import Replica
from accel.workload.torch_settings import read_settings, write_settings

SWITCHES = [MatmulPrecision(), ReducedPrecisionReductions(accumulation=True), CudnnBenchmark()]
each_switch = pytest.mark.parametrize("entry", SWITCHES, ids=lambda entry: entry.name)
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="what is said without a GPU")
torch_with_new_names = pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"),
    reason="torch before 2.9 has only the old names",
)
MACHINE = dataclasses.replace(read_machine(), isa=("avx512_bf16", "amx_bf16"))


@each_switch
def test_it_is_set_while_applied_and_exactly_as_before_afterwards(entry):
    before = read_settings()
    with entry.apply(Replica()):
        assert read_settings() != before
    assert read_settings() == before


def test_an_interrupt_after_some_of_the_settings_were_written_leaves_all_as_before(monkeypatch):
    def write_one_and_stop(settings):
        write_settings(dict(list(settings.items())[:1]))
        monkeypatch.undo()
        raise KeyboardInterrupt

    before = read_settings()
    monkeypatch.setattr(held_settings, "write_settings", write_one_and_stop)
    with pytest.raises(KeyboardInterrupt), settings_held(Replica(), {"cudnn.benchmark": True, "threads": 1}):
        pass
    assert read_settings() == before
    assert not is_held("cudnn.benchmark")


@each_switch
def test_a_part_of_the_process_does_not_set_it(entry):
    before = read_settings()
    with entry.apply(Replica(models={"model": training().model}, is_process_wide=False)):
        assert read_settings() == before


@each_switch
def test_it_cannot_be_asked_for_one_object_alone(entry):
    plan = Plan.parse(f'{entry.name}(on="model")')
    reasons = plan.why_not(training().workload(), MACHINE)[entry.name]
    assert any("whole process" in str(reason) for reason in reasons)


def test_what_somebody_had_forbidden_is_forbidden_again():
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    with MatmulPrecision().apply(Replica()), ReducedPrecisionReductions().apply(Replica()):
        assert torch.backends.cudnn.allow_tf32
        assert torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction


@no_gpu
@each_switch
def test_a_flag_alone_is_no_proof(entry):
    made = training()
    with entry.apply(made.replica()):
        made.epochs()
        assert not entry.took_effect(made.replica()).took_effect


@no_gpu
@pytest.mark.parametrize(
    "entry", [ReducedPrecisionReductions(), CudnnBenchmark()], ids=lambda entry: entry.name
)
def test_without_a_gpu_that_is_the_reason(entry):
    assert "There is no CUDA GPU here" in str(entry.why_not(training().workload(), MACHINE)[0])


def test_a_product_that_rounds_is_told_from_one_that_does_not(monkeypatch):
    """As hardware with TF32 or bfloat16 rounds, done by hand: this machine may have neither."""
    multiply = torch.Tensor.__matmul__

    def rounding(bits):
        return lambda a, b: torch.round(multiply(a, b) * 2**bits) / 2**bits

    assert not MatmulPrecision().took_effect(Replica()).took_effect
    monkeypatch.setattr(torch.Tensor, "__matmul__", rounding(10))
    assert MatmulPrecision().took_effect(Replica()).evidence.endswith("TF32")
    monkeypatch.setattr(torch.Tensor, "__matmul__", rounding(7))
    assert MatmulPrecision().took_effect(Replica()).evidence.endswith("bfloat16")


def test_the_product_is_of_float32_on_the_models_device_whatever_the_defaults_are(monkeypatch):
    multiply, seen = torch.Tensor.__matmul__, []

    def noting(a, b):
        seen.append((a.dtype, a.device.type))
        return multiply(a, b)

    monkeypatch.setattr(torch.Tensor, "__matmul__", noting)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    torch.set_default_dtype(torch.float64)
    try:
        MatmulPrecision().took_effect(training().replica())
    finally:
        torch.set_default_dtype(torch.float32)
    assert set(seen) == {(torch.float32, "cpu")}


def test_a_cpu_needs_amx_for_it():
    medium, usual = MatmulPrecision(precision="medium"), training().workload()
    assert medium.why_not(usual, MACHINE) == []
    (reason,) = medium.why_not(usual, dataclasses.replace(MACHINE, isa=("avx512_bf16",)))
    assert "no AMX" in str(reason)
    (reason,) = MatmulPrecision(precision="high").why_not(usual, MACHINE)
    assert "No CPU computes in TF32" in str(reason)


def test_what_is_set_already_is_a_reason_unless_a_plan_set_it():
    medium, usual = MatmulPrecision(precision="medium"), training().workload()
    with medium.apply(Replica()):
        assert medium.why_not(usual, MACHINE) == []
    torch.set_float32_matmul_precision("medium")
    (reason,) = medium.why_not(usual, MACHINE)
    assert "already" in str(reason)


def test_a_net_without_convolutions_has_nothing_for_cudnn():
    made = training()
    made.model = nn.Linear(2, 2)
    assert any("convolutions" in str(reason) for reason in CudnnBenchmark().why_not(made.workload(), MACHINE))


def test_allowing_nothing_is_an_error():
    with pytest.raises(AccelError, match="nothing is left"):
        ReducedPrecisionReductions(fp16=False, bf16=False)


@torch_with_new_names
def test_new_names_of_the_setting_are_a_reason_and_no_error():
    """Reading the old name is an error in torch then: so it must not be what settings are shipped by alone."""
    before = read_settings()
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    with pytest.raises(RuntimeError, match="mix"):
        torch.get_float32_matmul_precision()
    (_, reason) = MatmulPrecision().why_not(training().workload(), MACHINE)
    assert "does not mix" in str(reason)
    shipped = read_settings()
    write_settings(before)
    assert torch.get_float32_matmul_precision() == "highest"
    write_settings(shipped)
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    write_settings(before)
