"""Ways in which a cell writes files, in a process whose disk is private: what each read back, as JSON.

    python -m tests.private_disk.ways_of_writing '[{"cwd": …, "home": …, "temporary": …, "folder": …, "mechanism": …, "as": …}]'

In `cwd` lie `here.txt`, `data.bin` and `removed.txt`: it writes over them and beside them. A line of output is a place.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from accel.errors import AccelError
from accel.private_disk import PrivateDisk
from accel.private_disk.namespace_view import drop_capabilities
from accel.private_disk.private_disk import VARIABLE

SETFCAP = 1 << 31  # root needs it to be root in a user namespace; other users need no capability
WAYS: dict[str, Callable[[], str]] = {}


def way(function: Callable[[], str]) -> Callable[[], str]:
    """Put it into the table."""
    WAYS[function.__name__.replace("_", " ")] = function
    return function


@way
def by_open() -> str:
    with open("here.txt", "a") as file:
        file.write(" and more")
    return open("here.txt").read().replace("as it was and more", "new")


@way
def by_pathlib() -> str:
    Path("pathlib.txt").write_text("new")
    return Path("pathlib.txt").read_text() if Path("pathlib.txt").exists() else ""


@way
def by_torch_save() -> str:
    from torch import load, save, tensor

    save(tensor([1.0]), "here.pt")
    return "new" if load("here.pt").item() == 1 else ""


@way
def by_safetensors() -> str:
    import torch
    from safetensors.torch import load_file, save_file

    save_file({"x": torch.ones(2)}, "model.safetensors")
    return "new" if load_file("model.safetensors")["x"].sum() == 2 else ""


@way
def by_sqlite() -> str:
    with sqlite3.connect("runs.sqlite") as database:
        database.execute("create table t (word text)")
        database.execute("insert into t values ('new')")
    return str(sqlite3.connect("runs.sqlite").execute("select word from t").fetchone()[0])


@way
def by_memory_map() -> str:
    import numpy

    mapped = numpy.memmap("data.bin", dtype="uint8", mode="r+")
    mapped[:3] = list(b"new")
    mapped.flush()
    with open("data.bin", "rb") as file:
        return file.read(3).decode()


@way
def by_descriptor() -> str:
    descriptor = os.open("here.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(descriptor, b"new")
    os.close(descriptor)
    return Path("here.txt").read_text()


@way
def by_a_program() -> str:
    subprocess.run(["sh", "-c", "echo new > program.txt; rm -f here.txt"], check=True)
    return Path("program.txt").read_text().strip()


@way
def by_replacing() -> str:
    Path("unfinished").write_text("new")
    os.replace("unfinished", "here.txt")
    return Path("here.txt").read_text()


@way
def by_copying() -> str:
    Path("source.txt").write_text("new")
    shutil.copy("source.txt", "copy.txt")
    shutil.move("copy.txt", "data.bin")
    return Path("data.bin").read_text()


@way
def by_a_new_folder() -> str:
    os.makedirs("step-1.unfinished/below")
    Path("step-1.unfinished/below/x").write_text("new")
    os.rename("step-1.unfinished", "step-1")
    assert os.listdir("step-1") == ["below"]
    assert "step-1" in os.listdir(".")
    return Path("step-1/below/x").read_text()


@way
def in_a_folder_that_is_there() -> str:
    os.makedirs("step-0", exist_ok=True)
    Path("step-0").mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink("here.txt", "step-0")
    Path("step-0/again").write_text("new")
    os.makedirs("step-0", exist_ok=True)
    return Path("step-0/again").read_text()


@way
def by_removing() -> str:
    os.unlink("removed.txt")
    assert "removed.txt" not in os.listdir(".")
    return "" if os.path.exists("removed.txt") else "new"


@way
def by_a_link_of_its_own() -> str:
    import torch

    os.symlink(os.path.abspath("here.txt"), "latest.txt")
    Path("latest.txt").write_text("new")
    os.symlink(os.path.abspath("step-0"), "runs")
    torch.save(5, "runs/weights")
    assert torch.load("step-0/weights") == 5
    os.symlink(os.path.abspath("untouched"), "other")
    assert Path("other/read.txt").read_text() == "yours"
    assert os.listdir("other") == ["read.txt"]
    Path("other/read.txt").write_text("new")
    os.unlink("removed-too.txt")
    elsewhere = tempfile.mkdtemp()
    os.symlink(f"{elsewhere}/out", "removed-too.txt")
    Path("removed-too.txt").write_text("new")
    assert os.listdir(elsewhere) == ["out"]
    os.symlink("here.txt", "relative.txt")
    return Path("here.txt").read_text() if Path("relative.txt").read_text() == "new" else ""


@way
def from_where_it_went() -> str:
    Path("step-0/more").write_text("new")
    os.chdir("step-0")
    try:
        assert Path("weights").exists()
        assert Path("../untouched/read.txt").exists()
        assert sorted(os.listdir()) == ["again", "more", "weights"]
        Path("../here.txt").write_text("new")
    finally:
        os.chdir("..")
    return Path("here.txt").read_text()


@way
def by_keywords() -> str:
    sqlite3.connect(database="keywords.sqlite").close()
    with open(file="keywords.txt", mode="w") as file:
        file.write("new")
    return Path("keywords.txt").read_text() if Path("keywords.sqlite").exists() else ""


def what_happens(function: Callable[[], str]) -> str:
    """What it read back; why it failed, where it did."""
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def what_each_way_read_back(place: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The mechanism, and for each way what the cell read back."""
    os.environ |= {"HOME": place["home"], "TMPDIR": place["temporary"], VARIABLE: place["mechanism"]}
    os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
    tempfile.tempdir = None
    os.chdir(place["cwd"])
    if place["as"] == "an ordinary user":
        drop_capabilities(but=SETFCAP)
    disk = PrivateDisk(place["folder"])
    mechanism = disk.enter("A trial", "Move that line to a cell of its own.")
    return mechanism, {name: what_happens(function) for name, function in WAYS.items()}


def main(places: list[dict[str, str]]) -> None:
    """Each place in a process of its own, which torch need not be imported into again."""
    import numpy  # noqa: F401
    import safetensors.torch  # noqa: F401

    for place in places:
        reads, writes = os.pipe()
        if os.fork() == 0:
            try:
                found: object = what_each_way_read_back(place)
            except AccelError as error:
                found = None, {"": str(error)}
            os.write(writes, json.dumps(found).encode())
            os._exit(0)
        os.close(writes)
        with open(reads) as answer:
            print(answer.read(), flush=True)
        os.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
