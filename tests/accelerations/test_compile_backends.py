"""Which backends of torch.compile can be used, and why not the others."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
import torch
from small_training import training

import accel
from accel.accelerations.compile_backends import compile_backends, why_not_backend
from accel.accelerations.compile_model import CompileModel
from accel.commands import parse
from accel.commands.running import run_without_notebook
from accel.machine import read_machine

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
        assert re.search(r"\. [A-Z].+\.$", row.why_not), row.why_not


def test_inductor_on_a_cpu_needs_a_compiler_and_the_header():
    machine = dataclasses.replace(ABLE, c_compiler=None, python_header=None)
    assert len(why_not_backend("inductor", machine, "cpu")) == 2
    assert why_not_backend("inductor", ABLE, "cpu") == []


def test_inductor_on_a_gpu_needs_triton(monkeypatch):
    from accel.accelerations import compile_backends as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    (reason,) = why_not_backend("inductor", ABLE, "cuda")
    assert "triton" in reason


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (CompileModel(backend="nonsense"), 'no backend "nonsense". Choose one of: '),
        (CompileModel(mode="max-autotune", backend="aot_eager"), "Leave out mode or backend."),
        (CompileModel(mode="reduce-overhead"), "CUDA graphs"),
        (CompileModel(backend="cudagraphs"), "NVIDIA GPU"),
    ],
    ids=repr,
)
def test_compile_model_says_why_its_backend_cannot_work(entry, says):
    (reason,) = entry.why_not(training().workload(), ABLE)
    assert says in reason


def test_function_command_and_program_give_the_same():
    by_command = run_without_notebook(parse("backends"))
    assert by_command == accel.compile_backends() == compile_backends()
    assert json.dumps(by_command.to_dict())
    assert len(by_command.to_dataframe()) == len(by_command.rows)
    shown = by_command._repr_mimebundle_()["text/html"]
    assert all(row.name in shown and row.name in str(by_command) for row in by_command.rows)
