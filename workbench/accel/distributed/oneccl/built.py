"""Where the compiled backend lies, and why it cannot be used or built here."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
from pathlib import Path

MODULE = "accel_ccl"
BUILD_COMMAND = "%accel oneccl --build"
PACKAGES = (  # the CPU's part of oneCCL, libfabric with its shared memory, and Intel's runtime; together, or it does not link
    "oneccl-devel==2022.1.2", "impi-rt==2021.18.1", "intel-cmplr-lib-rt==2026.2.0", "tcmlib==1.6.0",
)  # fmt: skip
SOURCE = Path(__file__).with_name("ccl_backend.cpp")


def build_folder() -> Path:
    """The folder of the build that fits this Python, this torch, these wheels and this source.

    >>> build_folder()
    PosixPath('~/.cache/accel/oneccl-2f1c9a0d77b3')
    """
    import torch

    setup = [sys.version, str(torch.__version__), platform.machine(), *PACKAGES, SOURCE.read_text()]
    name = hashlib.sha256("\n".join(setup).encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "accel" / f"oneccl-{name}"


def why_not_usable() -> str:
    """Why ranks cannot talk by oneCCL here; empty where they can."""
    if elsewhere := _why_not_this_machine():
        return elsewhere
    import torch

    if not (build_folder() / f"{MODULE}.so").is_file():
        return f"oneCCL is not built here for torch {torch.__version__}"
    return ""


def why_not_buildable() -> tuple[str, str]:
    """(why it cannot be built here, what to do); two empty texts where nothing is known to be in its way."""
    if elsewhere := _why_not_this_machine():
        return elsewhere, "Use --backend gloo."
    import sysconfig

    if compiler() is None:
        return "there is no C++ compiler", "On Debian and Ubuntu: apt-get install g++"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return (
            "there is no Python.h, which extensions are compiled with",
            "On Debian and Ubuntu: apt-get install python3-dev",
        )
    # Not by importlib.util.find_spec: asked for pip, setuptools leaves distutils to Python, and torch.compile fails from then on.
    if not any(importlib.metadata.distributions(name="pip")):
        return "this Python has no pip, which fetches Intel's wheels", f"Run: {sys.executable} -m ensurepip"
    return "", ""


def compiler() -> str | None:
    """The C++ compiler: the one that CXX names, else g++."""
    return shutil.which(os.environ.get("CXX") or "g++")


def _why_not_this_machine() -> str:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"oneCCL is there for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
    return ""
