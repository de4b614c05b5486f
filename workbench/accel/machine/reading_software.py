"""Find out what software is in use, without importing torch and without starting CUDA."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from accel.machine.nvml import asked, asked_text, opened_nvml, why_silent
from accel.machine.software import Software, TorchBuild, TorchLibraries

BACKENDS = ("gloo", "nccl", "mpi", "ucc", "xccl")
BLAS_NAMES = {
    "mkl": "oneMKL", "open": "OpenBLAS", "accelerate": "Accelerate", "veclib": "vecLib", "blis": "BLIS", "flexi": "FlexiBLAS",
    "atlas": "ATLAS", "eigen": "Eigen", "nvpl": "NVPL", "apl": "Arm Performance Libraries",
}  # fmt: skip


def read_software() -> Software:
    """What is there now; libraries only where torch is loaded already.

    >>> print(read_software())
    """
    with opened_nvml() as nvml:
        driver = (
            None if nvml is None else asked_text(nvml, "nvmlSystemGetDriverVersion") or "of unknown version"
        )
        cuda = None if nvml is None else asked(nvml, "nvmlSystemGetCudaDriverVersion")
    torch = sys.modules.get("torch")
    return Software(
        torch=installed_torch(),
        libraries=None if torch is None else libraries_of(torch),
        driver=driver,
        driver_cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        why_no_driver=None if driver else why_silent(),
        c_library=c_library(),
    )


def installed_torch() -> TorchBuild | None:
    """From the file that torch's build wrote; None where torch is not installed.

    >>> installed_torch().cuda
    '13.0'
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        return torch_build((Path(spec.origin).parent / "version.py").read_text())
    except OSError:
        return None


def torch_build(written: str) -> TorchBuild:
    """The same from the text of a torch/version.py."""

    def value(name: str) -> str | None:
        match = re.search(rf"^{name}\s*(?::[^=]*)?=\s*['\"]([^'\"]+)", written, re.MULTILINE)
        return match.group(1) if match else None

    is_debug = re.search(r"^debug\s*(?::[^=]*)?=\s*True", written, re.MULTILINE) is not None
    return TorchBuild(
        value("__version__") or "of unknown version", value("cuda"), value("hip"), value("xpu"), is_debug
    )


def libraries_of(torch: Any) -> TorchLibraries:
    """What a loaded torch tells about itself."""
    shown = torch.__config__.show()
    present, absent = _process_groups(torch)
    is_rocm = torch.version.hip is not None
    return TorchLibraries(
        blas=blas(shown),
        onednn=onednn(shown),
        cpu_kernels=_first(r"CPU capability usage: (\S+)", shown),
        cudnn=_cudnn(torch, is_rocm=is_rocm),
        nccl=_nccl(torch),
        process_groups=present,
        absent_groups=absent,
        has_cxx11_abi=_cxx11_abi(torch),
    )


def blas(shown: str) -> str | None:
    """Name and version of the BLAS, from what torch.__config__.show() says; OpenBLAS itself is asked for its version.

    >>> blas(torch.__config__.show())
    'oneMKL 2024.2'
    """
    name = _first(r"BLAS_INFO=(\w+)", shown)
    version = _first(r"Math Kernel Library Version (\S+?)(?:-| |$)", shown)
    if name is None:
        return f"oneMKL {version}" if version else None
    known = BLAS_NAMES.get(name.lower(), name)
    found = version if known == "oneMKL" else _openblas_version() if known == "OpenBLAS" else None
    return f"{known} {found}" if found else known


def onednn(shown: str) -> str | None:
    """The version of oneDNN, which torch still calls MKL-DNN; None in a build without it."""
    return _first(r"(?:MKL-DNN|oneDNN) v(\S+)", shown)


def cudnn_version(number: int, *, is_rocm: bool = False) -> str:
    """A version that the library gives as one number.

    >>> cudnn_version(8902), cudnn_version(92400)
    ('8.9.2', '9.24.0')
    """
    major, rest = divmod(number, 1_000_000 if is_rocm else 10_000 if number >= 90_000 else 1_000)
    minor, patch = divmod(rest, 1_000 if is_rocm else 100)
    return f"{major}.{minor}.{patch}"


def c_library() -> str | None:
    """glibc with its version, or musl; None where the system is built otherwise (macOS, Windows).

    >>> c_library()
    'glibc 2.36'
    """
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):  # no confstr on Windows, no such name on macOS and musl
        found = None
    if found:
        return found
    name, version = platform.libc_ver()
    return f"{name} {version}".strip() or None


def _process_groups(torch: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    distributed = torch.distributed
    if not distributed.is_available():
        return (), BACKENDS
    # An older torch lacks the question about a newer backend.
    has = {name: bool(getattr(distributed, f"is_{name}_available", bool)()) for name in BACKENDS}
    return tuple(name for name in BACKENDS if has[name]), tuple(name for name in BACKENDS if not has[name])


def _cudnn(torch: Any, *, is_rocm: bool) -> str | None:
    try:
        number = torch.backends.cudnn.version()
    except RuntimeError as reason:  # built with one version and loaded another
        return f"that cannot be used ({str(reason).partition('.')[0]})"
    return None if number is None else cudnn_version(number, is_rocm=is_rocm)


def _nccl(torch: Any) -> str | None:
    if not hasattr(torch._C, "_nccl_version"):
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def _cxx11_abi(torch: Any) -> bool | None:
    asks = getattr(torch, "compiled_with_cxx11_abi", None)
    return None if asks is None else bool(asks())


def _openblas_version() -> str | None:
    try:
        tells = ctypes.CDLL(None).openblas_get_config
    except (AttributeError, OSError, TypeError):  # not loaded for all to see; Windows has no CDLL(None)
        return None
    tells.restype = ctypes.c_char_p
    return _first(r"OpenBLAS (\S+)", (tells() or b"").decode())


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1) if match else None


class _DlInfo(ctypes.Structure):
    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p),
    ]  # fmt: skip


class _ElfSymbol(ctypes.Structure):
    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("name", ctypes.c_uint32), ("kind", ctypes.c_ubyte), ("visibility", ctypes.c_ubyte), ("section", ctypes.c_uint16),
    ]  # fmt: skip


class _LoadedObject(ctypes.Structure):
    _fields_: ClassVar[list[tuple[str, Any]]] = [("base", ctypes.c_void_p), ("file", ctypes.c_char_p)]


WITH_ITS_ENTRY = 1  # RTLD_DL_SYMENT: dladdr1 tells the symbol's entry in the table of that file too


def owner_of(symbol: str) -> str | None:
    """The file of the library that a call of `symbol` reaches; None when no loaded library has it.

    >>> owner_of("malloc")
    '/lib/x86_64-linux-gnu/libc.so.6'

    A program that is linked to fixed addresses, as Debian's and Ubuntu's Python is, answers for what it calls: with a jump of
    its own. Then its libraries are asked, in the order in which the loader looks through them.
    """
    try:
        process = ctypes.CDLL(None)
        if not hasattr(process, symbol):
            return None
        if (file := _defining_file(process, process, symbol)) is not None:
            return file
        for each in _loaded_files(process)[1:]:
            library = ctypes.CDLL(each, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            if (
                hasattr(library, symbol) and _defining_file(process, library, symbol) == each
            ):  # not one of those it needs
                return each
    except (AttributeError, OSError, TypeError):  # Windows has neither CDLL(None) nor dladdr
        return None
    return None


def _defining_file(process: ctypes.CDLL, library: ctypes.CDLL, symbol: str) -> str | None:
    """Where the function lies that `library` finds under this name; None where it is a program's jump to it."""
    info, entry = _DlInfo(), ctypes.POINTER(_ElfSymbol)()
    address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p)
    if hasattr(process, "dladdr1"):
        found = process.dladdr1(address, ctypes.byref(info), ctypes.byref(entry), WITH_ITS_ENTRY)
    else:  # not of glibc
        found = process.dladdr(address, ctypes.byref(info))
    if not found or not info.file or (entry and entry.contents.section == 0):
        return None
    return os.fsdecode(info.file)


def _loaded_files(process: ctypes.CDLL) -> list[str]:
    """The program (nameless) and its libraries, in the order in which they were loaded: preloaded ones first."""
    files: list[str] = []

    def note(loaded: Any, _size: int, _data: Any) -> int:
        files.append(os.fsdecode(loaded.contents.file or b""))
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_LoadedObject), ctypes.c_size_t, ctypes.c_void_p)
    process.dl_iterate_phdr(kind(note), None)
    return [file for file in files if "linux-vdso" not in file]


def openmp_runtime() -> str | None:
    """The OpenMP library that torch's parallel loops run on; meaningful once torch is loaded."""
    return owner_of("GOMP_parallel") or owner_of("__kmpc_fork_call") or owner_of("omp_get_max_threads")
