"""Which backends of torch.compile can be used, and why not the others."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
import torch
from small_training import training, workload_of

import accel
from accel.accelerations.compile_model import CompileModel
from accel.accelerations.compile_optimizer import CompileOptimizer
from accel.commands import Place, command_named, parse
from accel.machine import read_machine
from accel.techniques.compiling.compile_backends import compile_backends, why_not_backend
from accel.workload import Replica

ABLE = dataclasses.replace(read_machine(), c_compiler="g++", python_header="Python.h")


def test_all_that_torch_lists_are_there_and_those_for_finding_faults():
    named = [row.name for row in compile_backends().rows]
    assert {*torch._dynamo.list_backends(), "eager", "aot_eager"} == set(named)
    assert len(named) == len(set(named))


def test_a_usable_backend_compiles_and_another_does_not():
    for row in compile_backends(ABLE, device="cpu").rows:
        # Inductor needs a real compiler, and after cudagraphs torch 2.14 cannot reset dynamo on a machine without a GPU.
        if row.name in ("inductor", "cudagraphs"):
            continue
        compiled = torch.compile(lambda x: x + 1, backend=row.name)
        if row.is_usable:
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        else:
            with pytest.raises(Exception, match=r"backend=|install"):
                compiled(torch.ones(2))


def test_what_cannot_be_used_has_a_reason_that_ends_in_what_to_do():
    unusable = [row for row in compile_backends(ABLE, device="cpu").rows if not row.is_usable]
    assert unusable
    for row in unusable:
        assert all(re.fullmatch(r"[A-Z].+\.", reason.do) for reason in row.reasons), row


def test_inductor_on_a_cpu_needs_a_compiler_and_the_header():
    machine = dataclasses.replace(ABLE, c_compiler=None, python_header=None)
    assert len(why_not_backend("inductor", machine, "cpu")) == 2
    assert why_not_backend("inductor", ABLE, "cpu") == []


def test_inductor_on_a_gpu_needs_triton(monkeypatch):
    from accel.techniques.compiling import compile_backends as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    (reason,) = why_not_backend("inductor", ABLE, "cuda")
    assert "triton" in str(reason)


def test_inductor_on_a_gpu_needs_a_compiler_and_the_header_too(monkeypatch):
    from accel.techniques.compiling import compile_backends as module

    monkeypatch.setattr(module, "find_spec", lambda name: object())
    machine = dataclasses.replace(ABLE, c_compiler=None, python_header=None)
    compiler, header = why_not_backend("inductor", machine, "cuda")
    assert "Install gcc" in str(compiler)
    assert "Python.h" in str(header)
    assert why_not_backend("inductor", ABLE, "cuda") == []


@pytest.mark.parametrize("name", ["tvm", "openxla", "tensorrt"])
def test_an_installed_backend_that_cannot_train_is_refused(name, monkeypatch):
    from accel.techniques.compiling import compile_backends as module

    monkeypatch.setattr(module, "find_spec", lambda name: object())
    monkeypatch.setattr(module, "_names", lambda: [name])
    (row,) = compile_backends(ABLE, device="cpu").rows
    assert "cannot train" in row.why_not
    assert not row.is_usable


def test_a_mode_for_gpus_is_asked_about_the_device_of_an_optimizer_alone():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2, device="meta"))])
    assert Replica(optimizers={"optimizer": optimizer}).device_type == "meta"
    made = Replica(optimizers={"optimizer": optimizer})
    reasons = CompileOptimizer(mode="reduce-overhead").why_not(
        workload_of(made, {"optimizer": optimizer}), ABLE
    )
    assert not any("on a CPU" in str(reason) for reason in reasons)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (CompileModel(backend="ipex"), "Intel ended it"),
        (CompileModel(backend="nonsense"), 'no backend "nonsense". Choose one of: '),
        (CompileModel(mode="max-autotune", backend="aot_eager"), "Leave out mode or backend."),
        (CompileModel(mode="reduce-overhead"), "CUDA graphs"),
        (CompileModel(backend="cudagraphs"), "NVIDIA GPU"),
    ],
    ids=repr,
)
def test_compile_model_says_why_its_backend_cannot_work(entry, says):
    (reason,) = entry.why_not(training().workload(), ABLE)
    assert says in str(reason)


def test_function_command_and_program_give_the_same():
    by_command = command_named("backends").run(parse("backends"), Place())
    assert by_command == accel.compile_backends() == compile_backends()
    assert json.dumps(by_command.to_dict())
    assert len(by_command.to_dataframe()) == len(by_command.rows)
    shown = by_command._repr_mimebundle_()["text/html"]
    assert all(row.name in shown and row.name in str(by_command) for row in by_command.rows)
