"""Look at this machine once and remember it: hardware from /sys and /proc, GPUs from their driver, versions from the packages."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import sysconfig
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from accel.machine.gpus import read_gpus, read_hidden_gpus
from accel.machine.hardware import read_hardware
from accel.machine.machine import Machine
from accel.machine.reading_software import openmp_runtime, owner_of, read_software
from accel.machine.usable_cores import UsableCores
from accel.processes.starting_mask import binding_variables, starting_mask


def read_machine(*, root: Path | str = "/", with_torch: bool = True, again: bool = False) -> Machine:
    """This machine, read once a process and root.

    >>> read_machine().usable_cores
    2

    `with_torch=False` spares the import of torch where it is not loaded yet: then the OpenMP runtime and the
    thread count are not known. `again=True` looks anew: available memory, load and thread count change. `root`: where /sys and
    /proc of another machine lie (a copied tree, a host's as a container sees them); GPUs and software remain this process's.
    """
    if again:
        _read.cache_clear()
    if with_torch and find_spec("torch"):
        import torch  # noqa: F401
    return _read("torch" in sys.modules, str(root))


@lru_cache(maxsize=4)
def _read(torch_is_loaded: bool, root: str) -> Machine:
    hardware = read_hardware(root)
    cpu, memory = hardware.cpu, hardware.memory
    usable = _before_openmp(hardware.usable) if Path(root) == Path("/") else hardware.usable
    return Machine(
        cpu_model=cpu.model or "a processor of no name",
        logical_cores=cpu.logical_cores,
        physical_cores=cpu.physical_cores,
        usable_cores=usable.count,
        usable=usable,
        sockets=cpu.sockets,
        numa_nodes=hardware.numa_nodes,
        caches=cpu.caches,
        cores=cpu.cores,
        core_kinds=cpu.core_kinds,
        cache_groups=cpu.cache_groups,
        highest_clock_mhz=cpu.highest_clock_mhz,
        isa=cpu.isa,
        memory_bytes=memory.total_bytes,
        available_bytes=memory.available_bytes,
        memory=memory,
        unknown=hardware.unknown,
        gpus=read_gpus(with_torch=torch_is_loaded),
        hidden_gpus=read_hidden_gpus(),
        os=platform.system(),
        os_release=platform.release(),
        python=platform.python_version(),
        torch=installed_version("torch"),
        torchvision=installed_version("torchvision"),
        torch_threads=sys.modules["torch"].get_num_threads() if torch_is_loaded else None,
        c_compiler=c_compiler(),
        python_header=python_header(),
        openmp_runtime=openmp_runtime() if torch_is_loaded else None,
        allocator=owner_of("malloc"),
        load_average=hardware.load_average,
        software=read_software(),
    )


def _before_openmp(usable: UsableCores) -> UsableCores:
    """Where a variable has OpenMP bind the main thread to one CPU, its other threads still compute on theirs."""
    if sys.platform != "linux" or not usable.allowed or not binding_variables():
        return usable
    return replace(usable, allowed=tuple(sorted({*usable.allowed, *starting_mask()})))


def c_compiler() -> str | None:
    """The compiler that torch.compile would call for its CPU kernels: $CXX, else the one TorchInductor expects here."""
    usual = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    return shutil.which(os.environ.get("CXX", usual))


def python_header() -> str | None:
    """Where Python.h is, in the folder in which TorchInductor looks; Debian has it in a package of its own."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return str(header) if header.is_file() else None


def installed_version(package: str) -> str | None:
    """The version of an installed package, its local part (+cpu, +cu132) included, without importing the package.

    >>> installed_version("torch")
    '2.15.0+cu132'
    """
    spec = find_spec(package)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    try:
        written = (folder / "version.py").read_text() if folder else ""
    except OSError:
        return None
    match = re.search(r"^__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)", written, re.MULTILINE)
    return match.group(1) if match else None
