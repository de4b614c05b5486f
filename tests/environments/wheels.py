"""Packages that lie in a folder: environments are made of them without a network."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest


def add_wheel(folder: Path, name: str, *, size_bytes: int = 0, library: str = "") -> None:
    """A package with one module, so many bytes of data that nothing compresses, and a file in the environment's lib."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": b"",
        f"{name}_data/numbers.bin": os.urandom(size_bytes),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if library:
        files[f"{name}-1.0.data/data/lib/{library}"] = b"not a real one"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
        wheel.writestr(f"{about}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"]))


def only_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let uv take packages from there and from nowhere else, in this process and those that it starts."""
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
