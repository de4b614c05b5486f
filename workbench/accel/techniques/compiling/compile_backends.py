"""The backends that torch.compile knows here: which of them can be used, and why the others cannot."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from accel.errors import Reason, in_words
from accel.shown import Shown
from accel.techniques.source.other_tools import instead_of

if TYPE_CHECKING:
    import pandas

    from accel.machine import Machine
    from accel.techniques.compiling.compiled_code import CompileOptions

# What a backend imports when it is first used: torch registers them whether that is installed or not.
_NEEDS = {
    "openxla": ("torch_xla", "torch_xla"),
    "onnxrt": ("onnxruntime", "onnxruntime and onnxscript"),
}
# What is known to keep one from training: what it compiles carries no gradient, or runs on a device of its own.
_CANNOT_TRAIN = {
    "tvm": "computes results without gradients",
    "tensorrt": "computes results without gradients",
    "torch_tensorrt": "computes results without gradients",
    "openxla": "compiles for XLA devices, whose models are on the device xla",
}
_SUMMARIES = {
    "inductor": "torch's own compiler: C++ for CPUs, Triton for GPUs",
    "cudagraphs": "torch's own kernels, launched together as CUDA graphs",
    "openxla": "Google's XLA compiler",
    "tvm": "Apache TVM",
    "onnxrt": "ONNX Runtime",
    "tensorrt": "NVIDIA's TensorRT",
    "aot_eager": "graphs of forward and backward, run with torch's own kernels: to find what fails, not for speed",
    "eager": "graphs of forward, run with torch's own kernels: to find what fails, not for speed",
}
_FOR_FINDING_FAULTS = ("eager", "aot_eager")  # torch lists them only when asked for debugging backends
_LEAST_CAPABILITY = (7, 0)  # of a GPU, for Triton


@dataclass(frozen=True)
class CompileBackend:
    """One backend: its name, what it is, and why it cannot be used here (no reasons: it can)."""

    name: str
    summary: str
    reasons: tuple[Reason, ...]

    @property
    def why_not(self) -> str:
        """The reasons as sentences; empty when there are none."""
        return in_words(self.reasons)

    @property
    def is_usable(self) -> bool:
        """Whether nothing is known to be in its way."""
        return not self.reasons


@dataclass(frozen=True)
class CompileBackends(Shown):
    """Every backend that this torch can be asked for, usable ones first.

    >>> print(accel.compile_backends())
    """

    rows: tuple[CompileBackend, ...]
    device: str

    def to_dict(self) -> dict[str, Any]:
        """The rows as plain values."""
        rows = [{"name": row.name, "summary": row.summary, "why_not": row.why_not} for row in self.rows]
        return {"device": self.device, "backends": rows}

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a backend."""
        import pandas

        return pandas.DataFrame(self.to_dict()["backends"])


def compile_backends(machine: Machine | None = None, *, device: str | None = None) -> CompileBackends:
    """The backends of torch.compile, for models on a device (default: "cuda" where there is a GPU, else "cpu").

    >>> [row.name for row in compile_backends().rows if row.is_usable]
    ['inductor', 'aot_eager', 'eager']

    Nothing is compiled to find out: it is seen whether the compiler, package or GPU that each one calls is there.
    """
    import torch

    from accel.machine import read_machine

    machine = machine or read_machine()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    rows = [
        CompileBackend(name, _summary(name), tuple(why_not_backend(name, machine, device)))
        for name in _names()
    ]
    return CompileBackends(tuple(sorted(rows, key=lambda row: not row.is_usable)), device)


def why_not_options(options: CompileOptions, machine: Machine, device: str) -> list[Reason]:
    """Reasons against compiling with these options here: switched off, an unusable backend, a mode that is not its own."""
    reasons = [
        Reason(
            f"{variable}=1 in the environment switches torch.compile off", "Unset it and restart the kernel."
        )
        for variable in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
        if os.environ.get(variable, "0") == "1"
    ]
    reasons += why_not_backend(options.backend, machine, device)
    if options.mode != "default" and options.backend != "inductor":
        reasons.append(
            Reason(
                f'mode="{options.mode}" is for the backend "inductor", and "{options.backend}" has no modes',
                "Leave out mode or backend.",
            )
        )
    if options.mode == "reduce-overhead" and device == "cpu":
        reasons.append(
            Reason(
                'mode="reduce-overhead" means CUDA graphs, and on a CPU it compiles the same as mode="default"',
                'Use mode="default", or train on a GPU.',
            )
        )
    return reasons


def why_not_backend(name: str, machine: Machine, device: str) -> list[Reason]:
    """Reasons why a backend cannot be used for models on this device, and what to do."""
    import torch

    if name != "inductor" and name not in _names():  # asking torch for the names imports all of them: 0.6 s
        instead = instead_of(name) or f"Choose one of: {', '.join(_names())}."
        return [Reason(f'This torch has no backend "{name}"', instead)]
    if name == "inductor":
        return _why_not_inductor(machine, device)
    if name == "cudagraphs" and not (torch.cuda.is_available() and device == "cuda"):
        return [
            Reason(
                'The backend "cudagraphs" launches kernels of an NVIDIA GPU, and the model is not on one',
                "Train on a GPU, or use another backend.",
            )
        ]
    if name in _CANNOT_TRAIN and not (name == "openxla" and device == "xla"):
        return [
            Reason(
                f'The backend "{name}" {_CANNOT_TRAIN[name]}, so it cannot train this', "Use another backend."
            )
        ]
    package, install = _NEEDS.get(name, (_package_of(name), ""))
    if package and find_spec(package) is None:
        return [
            Reason(
                f'The backend "{name}" needs the package {package}, which is not installed',
                f"Install {install or package}, or use another backend.",
            )
        ]
    return []


def _why_not_inductor(machine: Machine, device: str) -> list[Reason]:
    import torch

    if device not in ("cpu", "cuda"):
        return []
    reasons = []
    if device == "cuda":
        if find_spec("triton") is None:
            reasons.append(
                Reason(
                    "torch.compile writes Triton kernels for a GPU, and triton is not installed",
                    "Install triton.",
                )
            )
        capability = torch.cuda.get_device_capability() if torch.cuda.is_available() else _LEAST_CAPABILITY
        if torch.version.hip is None and capability < _LEAST_CAPABILITY:
            reasons.append(
                Reason(
                    f"Triton needs a GPU of compute capability 7.0, and this one has {capability[0]}.{capability[1]}",
                    'Use backend="cudagraphs", or leave compiling off.',
                )
            )
    if not machine.has_c_compiler:  # for a GPU too: what launches Triton's kernels is built with it
        compiler, install, variable = ("C++", "g++", "CXX") if device == "cpu" else ("C", "gcc", "CC")
        reasons.append(
            Reason(
                f"torch.compile needs a {compiler} compiler, and none is on PATH",
                f"Install {install}, or set {variable} to one.",
            )
        )
    if not machine.has_python_header:
        reasons.append(
            Reason(
                "The code that torch.compile builds includes Python.h, which is missing",
                "Install it (apt install python3-dev).",
            )
        )
    return reasons


def _names() -> list[str]:
    import torch._dynamo

    return [*torch._dynamo.list_backends(), *_FOR_FINDING_FAULTS]


def _summary(name: str) -> str:
    return _SUMMARIES.get(name, f"comes with the package {_package_of(name) or 'that registered it'}")


def _package_of(name: str) -> str:
    """The package that an installed extension's backend is loaded from; empty for torch's own."""
    found = [each.module for each in entry_points(group="torch_dynamo_backends") if each.name == name]
    return found[0].partition(".")[0] if found else ""
