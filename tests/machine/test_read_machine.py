"""The machine this test runs on, and what is shown of any machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import accel
from accel.machine import Gpu, Machine, read_machine
from accel.machine.gpus import read_gpus
from accel.machine.reading import c_compiler
from accel.machine.reading_software import openmp_runtime, owner_of


@pytest.fixture
def machine() -> Machine:
    return read_machine()


def test_the_line_names_processor_cores_torch_and_system(machine: Machine) -> None:
    line = machine.line
    assert machine.cpu_model in line
    assert f"{machine.usable_cores} of {machine.logical_cores} cores" in line
    assert f"torch {torch.__version__}" in line
    assert "\n" not in line


def test_it_is_read_once_and_again_when_asked(machine: Machine) -> None:
    assert read_machine() is machine
    assert read_machine(again=True) is not machine


def test_the_package_is_the_command_as_well() -> None:
    assert isinstance(accel.machine(), accel.machine.Machine)


def test_affinity_limits_the_usable_cores() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from accel.machine import read_machine; print(read_machine(with_torch=False).usable_cores)"
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system has no affinity masks")
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "1"


def test_cores_that_openmp_gives_to_its_other_threads_stay_usable() -> None:
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed, and masks that can be read")
    code = "import os, torch; torch.set_num_threads(2); torch.ones(2000, 2000).exp().sum()\n"
    code += "from accel.machine import read_machine; print(len(os.sched_getaffinity(0)), read_machine().usable_cores)"
    environment = os.environ | {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores", "OMP_NUM_THREADS": "2"}
    environment.pop("GOMP_CPU_AFFINITY", None)
    narrowed, usable = subprocess.check_output(
        [sys.executable, "-c", code], text=True, env=environment
    ).split()
    assert narrowed == "1"
    assert int(usable) >= 2


def test_torch_is_not_imported_where_that_is_not_wanted() -> None:
    code = "import sys; from accel.machine import read_machine; m = read_machine(with_torch=False)\n"
    code += "print('torch' in sys.modules, m.torch, m.torch_threads)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert shown == f"False {torch.__version__} None"


def test_all_of_it_can_be_written_as_json(machine: Machine) -> None:
    read_back = json.loads(json.dumps(machine.to_dict()))
    assert read_back["usable_cores"] == machine.usable_cores
    assert read_back["line"] == machine.line
    assert read_back["not_told"] == list(map(list, machine.unknown))


def test_rows_are_shown_in_groups(machine: Machine) -> None:
    names = [group for group, _ in machine.groups]
    assert names[:4] == ["Processor", "Memory", "GPUs", "Software"]
    html = machine._repr_mimebundle_()["text/html"]
    for group, rows in machine.groups:
        assert f"\n{group}\n" in str(machine)
        assert html.count(f"<b>{group}</b>") == 1
        assert rows
    assert machine.facts == [row for _, rows in machine.groups for row in rows]


def test_names_are_escaped_in_html(machine: Machine) -> None:
    html = replace(machine, cpu_model="<script>alert(1)</script>")._repr_mimebundle_()["text/html"]
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("isa", "capability", "expected"),
    [
        ((), None, False),
        (("avx512_bf16",), None, True),
        (("amx_bf16",), None, True),
        (("avx512f",), (7, 5), False),
        ((), (8, 0), True),
    ],
)
def test_bf16_needs_a_cpu_or_a_gpu_that_computes_in_it(machine: Machine, isa, capability, expected) -> None:
    gpus = (Gpu(0, "a GPU", 2**30, capability),) if capability else ()
    assert replace(machine, isa=isa, gpus=gpus).has_bf16 is expected


def test_the_compiler_is_the_one_that_inductor_would_call(monkeypatch, tmp_path) -> None:
    compiler = tmp_path / "my-c++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert read_machine(again=True).c_compiler == str(compiler)
    monkeypatch.setenv("CXX", str(tmp_path / "missing"))
    assert not read_machine(again=True).has_c_compiler
    monkeypatch.undo()
    read_machine(again=True)


def test_the_linker_knows_who_owns_a_function() -> None:
    assert "libc" in (owner_of("getpid") or "")
    assert owner_of("no_such_function_anywhere") is None


FIXED = "/usr/bin/python3"


def is_fixed() -> bool:
    """Whether the system's Python is linked to fixed addresses, as Debian's is, and can import us."""
    if not os.path.isfile(FIXED):
        return False
    with open(FIXED, "rb") as program:
        kind = program.read(18)[16:]
    older = subprocess.run([FIXED, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"], check=False)
    return kind == b"\x02\x00" and older.returncode == 0


@pytest.mark.skipif(not is_fixed(), reason=f"there is no {FIXED} at fixed addresses")
def test_a_program_at_fixed_addresses_does_not_own_what_it_calls(tmp_path) -> None:
    asked = "from accel.machine.reading_software import owner_of; print(owner_of('malloc'))"
    environment = os.environ | {"PYTHONPATH": os.path.dirname(accel.__path__[0]), "LD_PRELOAD": ""}
    alone = subprocess.run([FIXED, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert "libc" in alone.stdout
    if (compiler := c_compiler()) is None:
        pytest.skip("no compiler for a malloc of its own")
    (tmp_path / "own.c").write_text(
        "void *__libc_malloc(unsigned long); void *malloc(unsigned long n) {return __libc_malloc(n);}"
    )
    own = tmp_path / "own.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-o", own, tmp_path / "own.c"], check=True)
    environment["LD_PRELOAD"] = str(own)
    beside = subprocess.run([FIXED, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert beside.stdout.strip() == str(own)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems link other OpenMP runtimes")
def test_the_openmp_runtime_in_use_is_a_loaded_file() -> None:
    assert os.path.isfile(openmp_runtime() or "")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpus_are_the_ones_that_torch_sees() -> None:
    gpus = read_gpus()
    assert [gpu.name for gpu in gpus] == [
        torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())
    ]
    assert [gpu.capability for gpu in gpus] == [torch.cuda.get_device_capability(n) for n in range(len(gpus))]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_no_driver_means_no_gpu() -> None:
    assert read_gpus() == ()
