"""The software in use: of this process, of other builds of torch by what they say of themselves, of other drivers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from accel.machine import read_machine
from accel.machine.reading_software import (
    blas,
    c_library,
    cudnn_version,
    installed_torch,
    libraries_of,
    onednn,
    read_software,
    torch_build,
)
from tests.machine import fake_nvml

ROCM = """
from typing import Optional
__version__ = '2.9.1+rocm7.0'
debug = False
cuda: Optional[str] = None
hip: Optional[str] = '7.0.51831'
xpu: Optional[str] = None
"""
APPLE = """PyTorch built with:
  - GCC 4.2
  - clang 15.0.0
  - NNPACK is enabled
  - CPU capability usage: NO AVX
  - Build settings: BLAS_INFO=accelerate, BUILD_TYPE=Release, USE_MKL=OFF, USE_MKLDNN=OFF,
"""
ARM = """PyTorch built with:
  - Intel(R) MKL-DNN v3.7.1 (Git Hash 8d263e693366ef8db40acc569cc7d8edf644556d)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - CPU capability usage: SVE256
  - Build settings: BLAS_INFO=nvpl, BUILD_TYPE=Release, USE_MKL=OFF,
"""


def test_torch_is_described_without_loading_it() -> None:
    code = "import sys; from accel.machine.reading_software import read_software; s = read_software()\n"
    code += "print('torch' in sys.modules, s.libraries, s.torch.version, s.torch.cuda, s.torch.is_debug)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert shown == f"False None {torch.__version__} {torch.version.cuda} {torch.version.debug}"


def test_the_libraries_are_those_that_torch_names() -> None:
    found = read_software().libraries
    assert found.cpu_kernels == torch.backends.cpu.get_cpu_capability().replace("DEFAULT", "NO")
    assert (found.cudnn is None) is (torch.backends.cudnn.version() is None)
    assert (found.onednn is not None) is torch.backends.mkldnn.is_available()
    assert (found.blas or "").startswith("oneMKL 20") is torch.backends.mkl.is_available()
    assert ("gloo" in found.process_groups) is torch.distributed.is_gloo_available()
    assert set(found.process_groups).isdisjoint(found.absent_groups)


def test_cuda_is_not_started() -> None:
    code = "import torch; from accel.machine.reading_software import read_software; read_software()\n"
    code += "print(torch.cuda.is_initialized())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@pytest.mark.parametrize(
    ("number", "is_rocm", "expected"),
    [(8902, False, "8.9.2"), (90100, False, "9.1.0"), (92400, False, "9.24.0"), (3_005_001, True, "3.5.1")],
)
def test_versions_given_as_one_number_are_read(number, is_rocm, expected) -> None:
    assert cudnn_version(number, is_rocm=is_rocm) == expected


def test_other_builds_are_told_by_what_they_say() -> None:
    assert torch_build(ROCM).target == "ROCm 7.0.51831"
    assert torch_build("__version__ = '2.9.0+cpu'\ndebug = True").target == "the CPU only"
    assert "a debug build" in str(torch_build("__version__ = '2.9.0+cpu'\ndebug = True"))
    assert (blas(APPLE), onednn(APPLE)) == ("Accelerate", None)
    assert (blas(ARM), onednn(ARM)) == ("NVPL", "3.7.1")
    assert blas("nothing of it") is None


def test_a_cudnn_that_cannot_be_used_is_told_with_the_reason(monkeypatch) -> None:
    def version():
        raise RuntimeError("cuDNN version incompatibility: PyTorch was compiled against 9.1. More.")

    monkeypatch.setattr(torch.backends.cudnn, "version", version)
    assert "cuDNN version incompatibility" in libraries_of(torch).cudnn


def test_a_driver_is_named_with_the_cuda_that_it_knows(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.eight_h100())
    found = read_software()
    assert (found.driver, found.driver_cuda, found.why_no_driver) == ("580.65.06", "13.0", None)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.old_driver())
    assert (read_software().driver, read_software().driver_cuda) == ("390.1", None)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.broken())
    assert read_software().why_no_driver == "no NVIDIA driver answers (Driver/library version mismatch)"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in read_software().why_no_driver


@pytest.mark.parametrize(
    ("cuda", "expected"),
    [
        (None, "leaves the NVIDIA GPU alone: install a build for CUDA 12.4 or older"),
        ("13.0", "update the driver, or install a torch for CUDA 12"),
        ("12.8", ""),  # minor versions are compatible
        ("11.8", ""),
    ],
)
def test_a_build_that_cannot_use_the_gpu_is_noted(cuda, expected) -> None:
    build = replace(installed_torch(), cuda=cuda)
    found = replace(read_software(), torch=build, driver="550.54", driver_cuda="12.4")
    assert expected in found.notes[0] if expected else not found.notes
    assert replace(found, driver=None).notes == ()


def test_the_machine_shows_it_and_writes_it_as_json() -> None:
    machine = read_machine()
    assert re.search(r"torch build +for ", str(machine))
    read_back = json.loads(json.dumps(machine.to_dict()))["software"]
    assert read_back["torch"]["version"] == torch.__version__
    assert read_back["notes"] == list(machine.software.notes)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has glibc or musl")
def test_the_c_library_has_a_name() -> None:
    assert re.match(r"glibc \d|musl|libc", c_library() or "")
