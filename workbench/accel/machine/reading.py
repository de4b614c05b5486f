"""Look at this machine once and remember it: hardware from /sys, memory from psutil, versions from the packages."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import sysconfig
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from accel.machine.cpu import read_cpu, usable_cores
from accel.machine.gpus import read_gpus
from accel.machine.linked_libraries import openmp_runtime, owner_of
from accel.machine.machine import Machine


def read_machine(*, with_torch: bool = True, again: bool = False) -> Machine:
    """This machine, read once a process.

    >>> read_machine().usable_cores
    2

    `with_torch=False` spares the import of torch where it is not loaded yet: then the OpenMP runtime and the
    thread count are not known. `again=True` looks anew: available memory, load and thread count change.
    """
    if again:
        _read.cache_clear()
    if with_torch and find_spec("torch"):
        import torch  # noqa: F401
    return _read("torch" in sys.modules)


@lru_cache(maxsize=2)
def _read(torch_is_loaded: bool) -> Machine:
    import psutil

    cpu = read_cpu()
    memory = psutil.virtual_memory()
    logical = cpu.logical_cores or os.cpu_count() or 1
    return Machine(
        cpu_model=cpu.model or platform.processor() or platform.machine(),
        logical_cores=logical,
        physical_cores=cpu.physical_cores or psutil.cpu_count(logical=False) or 0,
        usable_cores=min(logical, usable_cores(cpu.quota_cores)),
        sockets=cpu.sockets,
        numa_nodes=cpu.numa_nodes,
        caches=cpu.caches,
        isa=cpu.isa,
        memory_bytes=memory.total,
        available_bytes=memory.available,
        gpus=read_gpus(with_torch=torch_is_loaded),
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
        load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    )


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
