"""doctor(): what is installed, what is missing, and what each missing part would enable."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.machine.machine import Machine
from accel.machine.reading import read_machine
from accel.machine.reading_software import owner_of
from accel.private_disk import disk_privacy
from accel.shown import Shown

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SoftwarePart:
    """One part of an installation: whether it is there, what it enables, and how to get it."""

    name: str
    is_present: bool
    found: str
    enables: str
    how_to_get: str

    def __str__(self) -> str:
        if self.is_present:
            return f"OK       {self.name}: {self.found}"
        return f"missing  {self.name}: would enable {self.enables}. {self.how_to_get}"


@dataclass(frozen=True)
class Installation(Shown):
    """What doctor found; `parts` in the order shown, `notes` for what may go wrong.

    >>> print(accel.doctor())
    """

    parts: tuple[SoftwarePart, ...]
    notes: tuple[str, ...]
    machine_line: str

    @property
    def missing(self) -> tuple[SoftwarePart, ...]:
        """The parts that are not there."""
        return tuple(part for part in self.parts if not part.is_present)

    def to_dict(self) -> dict[str, Any]:
        """The parts, the notes and the machine line as plain values."""
        return asdict(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a part."""
        import pandas

        return pandas.DataFrame([asdict(part) for part in self.parts])


def doctor() -> Installation:
    """Look for every part that accel can use; nothing is imported that is not needed, nothing is changed.

    >>> doctor().missing
    """
    machine = read_machine()
    parts = [_package(*row) for row in PACKAGES] + [check(machine) for check in CHECKS]
    return Installation(tuple(parts), tuple(_shadowing_packages()), machine.line)


_OWN = "The notebook's environment should have it: pip install {0}."
_ONNX = 'pip install "accel-workbench[onnx]".'
PACKAGES: tuple[tuple[str, str, str, str], ...] = (
    ("torch", "torch", "everything", _OWN.format("torch")),
    ("torchvision", "torchvision", "Fashion-MNIST and CIFAR-10 from your disk, and transforms", _OWN.format("torchvision")),
    ("ipywidgets", "ipywidgets", "the panel: switches and live trials", _OWN.format("ipywidgets")),
    ("anywidget", "anywidget", "the panel: switches and live trials", _OWN.format("anywidget")),
    ("plotly", "plotly", "profile.figure(), the phases, modules and operations as a chart", _OWN.format("plotly")),
    ("pandas", "pandas", "to_dataframe() of every table", "pip install pandas."),
    ("onnx", "onnx", "graph.to_onnx(), the model as an ONNX file", _ONNX),
    ("onnxscript", "onnxscript", "graph.to_onnx(), the model as an ONNX file", _ONNX),
    ("voila", "voila", "accel app, a notebook as an app", 'pip install "accel-workbench[app]".'),
)  # fmt: skip


def _package(name: str, module: str, enables: str, how_to_get: str) -> SoftwarePart:
    spec = find_spec(module)
    try:
        found = version(module.replace("_", "-")) if spec else ""
    except PackageNotFoundError:  # importable without metadata, as from a source tree
        found = "version unknown"
    return SoftwarePart(name, spec is not None, found, enables, how_to_get)


def _compiler(machine: Machine) -> SoftwarePart:
    get = "Install g++ (apt install g++, or conda install gxx), or name one in CXX."
    return SoftwarePart(
        "C++ compiler",
        machine.has_c_compiler,
        machine.c_compiler or "",
        "compile_model, compile_optimizer",
        get,
    )


def _header(machine: Machine) -> SoftwarePart:
    get = "Install Python's headers (apt install python3-dev; conda's and python.org's Python have them)."
    return SoftwarePart(
        "Python.h",
        machine.has_python_header,
        machine.python_header or "",
        "compile_model, compile_optimizer",
        get,
    )


def _lab_extension(machine: Machine) -> SoftwarePart:
    folder = Path(sys.prefix, "share/jupyter/labextensions/accel-workbench")
    get = "It comes with accel-workbench: install that again, into the environment that runs JupyterLab."
    enables = "the panel next to a notebook, and a notice when long work is over"
    return SoftwarePart(
        "JupyterLab's extension", (folder / "package.json").is_file(), str(folder), enables, get
    )


def _cuda(machine: Machine) -> SoftwarePart:
    torch = sys.modules.get("torch")
    works = bool(torch and torch.cuda.is_available())
    found = f"CUDA {torch.version.cuda}, {len(machine.gpus)} GPU(s)" if torch and works else ""
    return SoftwarePart(
        "CUDA",
        works,
        found,
        "training and trials on GPUs",
        "Needs an NVIDIA GPU, its driver and a CUDA build of torch.",
    )


def _nvml(machine: Machine) -> SoftwarePart:
    try:
        import pynvml
    except ImportError:
        return SoftwarePart("NVML", False, "", "GPU names, memory and links", "pip install nvidia-ml-py.")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as reason:
        return SoftwarePart(
            "NVML",
            False,
            "",
            "GPU names, memory and links",
            f"NVML says: {reason}; it comes with the driver.",
        )
    try:
        return SoftwarePart(
            "NVML", True, f"driver {pynvml.nvmlSystemGetDriverVersion()}", "GPU names, memory and links", ""
        )
    finally:
        pynvml.nvmlShutdown()


def _mallopt(machine: Machine) -> SoftwarePart:
    owner = owner_of("malloc") or ""
    works = owner_of("mallopt") is not None and "libc.so" in owner
    found = f"{owner} allocates" if works else ""
    get = f"Needs Linux with glibc's own allocator; {owner or 'an unknown library'} allocates here."
    return SoftwarePart("glibc mallopt", works, found, "steady_allocator, live in the notebook", get)


def _disk_of_trials(machine: Machine) -> SoftwarePart:
    found = disk_privacy()
    get = "Linux 5.13 or later has one of the two; some containers forbid both."
    return SoftwarePart(
        "Private disk",
        found.mechanism in ("namespace", "landlock"),
        str(found),
        f"trials that keep every write from your files. What holds here: {found}",
        get,
    )


CHECKS: tuple[Callable[[Machine], SoftwarePart], ...] = (
    _compiler, _header, _cuda, _nvml, _mallopt, _disk_of_trials, _lab_extension,
)  # fmt: skip


def _shadowing_packages() -> list[str]:
    """Other modules named accel on the path: the registry's `accel` is another project's."""
    own = Path(__file__).resolve().parent.parent
    found = []
    for entry in sys.path:
        for file in (Path(entry or ".") / "accel/__init__.py", Path(entry or ".") / "accel.py"):
            if file.is_file() and file.resolve().parent != own:
                found.append(
                    f"{file} is another module named accel; whichever comes first on sys.path wins. Rename it."
                )
    return found
