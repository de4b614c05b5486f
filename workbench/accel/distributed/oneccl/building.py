"""Building the backend: Intel's wheels into a folder of their own, one file compiled, and what is not needed removed again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from accel.distributed.oneccl.built import MODULE, PACKAGES, SOURCE, build_folder, compiler, why_not_buildable
from accel.errors import AccelError

_ASKED = "Building oneCCL"
# What the compiled backend loads in addition to itself; oneCCL's own part for CPUs is linked into it, without SYCL.
_KEPT = ("libfabric.so.1", "libshm-fi.so", "libhwloc.so.15", "libintlc.so.5", "libimf.so")
_LINKED = ("libhwloc.so.15", "libintlc.so.5", "libimf.so")
_LAST_LINES = 15


def build(say: Callable[[str], object] = print) -> Path:
    """Build it, if that has not been done, and give its folder; `say` gets each message of progress.

    >>> build()
    PosixPath('~/.cache/accel/oneccl-2f1c9a0d77b3')

    Nothing is installed into this Python: the wheels go to a folder of their own, and are removed when it is done.
    """
    folder = build_folder()
    if folder.is_dir():
        return folder
    because, do = why_not_buildable()
    if because:
        raise AccelError(_ASKED, because=because, do=do)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="oneccl-", dir=folder.parent) as scratch:
        wheels, made = Path(scratch) / "wheels", Path(scratch) / "made"
        say(f"Downloading {', '.join(PACKAGES)} (Intel's licence applies to them) ...")
        _install(wheels)
        made.mkdir()
        for name in _KEPT:
            shutil.copy(_found(wheels, name), made / name)
        for number, licence in enumerate(sorted(wheels.rglob("*.dist-info/LICENSE*"))):
            shutil.copy(
                licence, made / f"LICENSE-{licence.parent.name.removesuffix('.dist-info')}-{number}.txt"
            )
        say("Compiling the backend ...")
        _compile(wheels, made)
        _try(made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process has built it at the same time
                raise
    say(f"oneCCL is built: {folder}")
    return folder


def _install(wheels: Path) -> None:
    words = [
        "--no-deps",
        "--ignore-installed",
        "--no-warn-script-location",
        "--disable-pip-version-check",
        "--quiet",
    ]
    _run(
        [sys.executable, "-m", "pip", "install", *words, "--prefix", str(wheels), *PACKAGES],
        because="Intel's wheels could not be installed", do="pip's own words are above; a download needs the network.",
    )  # fmt: skip


def _compile(wheels: Path, made: Path) -> None:
    import torch

    torch_folder = Path(torch.__file__).parent
    headers = [torch_folder / "include", sysconfig.get_paths()["include"]]
    command = [
        str(compiler()), "-shared", "-fPIC", "-O2", "-std=c++20", f"-DTORCH_EXTENSION_NAME={MODULE}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-isystem{each}" for each in headers), f"-I{_found(wheels, 'ccl.hpp').parent.parent}",
        str(SOURCE), "-o", str(made / f"{MODULE}.so"),
        str(_found(wheels, "libccl.a", below="cpu")), "-Wl,--exclude-libs,ALL", *(str(made / name) for name in _LINKED),
        "-Wl,--disable-new-dtags,-rpath,$ORIGIN",  # as RPATH, it counts for libraries that oneCCL itself opens
        f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python",
        "-lpthread", "-ldl", "-lrt",
    ]  # fmt: skip
    _run(
        command, because="the backend did not compile",
        do=f"The compiler's last lines are above; it was made for torch 2.14, and this is {torch.__version__}.",
    )  # fmt: skip


def _try(made: Path) -> None:
    """That it loads is tried in a process of its own, as a rank loads it."""
    code = "import sys; from accel.distributed.oneccl.joining import loaded; loaded(sys.argv[1], rank=0, ranks=1)"
    _run(
        [sys.executable, "-c", code, str(made)],
        because="it was built and cannot be loaded",
        do="Why is above.",
    )


def _run(command: list[str], *, because: str, do: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
    )  # fmt: skip
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
        raise AccelError(f"{last}\n{_ASKED}", because=because, do=do)


def _found(wheels: Path, name: str, below: str = "") -> Path:
    """A file of the wheels; systems differ in the folders that they put them into."""
    for path in sorted(wheels.rglob(name)):
        if not below or below in path.parts:
            return path
    raise AccelError(
        _ASKED,
        because=f"Intel's wheels have no {name}",
        do="Please report this with the output of %accel machine.",
    )
