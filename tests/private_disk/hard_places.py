"""Places in which a view of the disk is hard to have: what a cell that writes there does to it, in mount namespaces of their own.

    unshare -m python -m tests.private_disk.hard_places FOLDER KIND MECHANISM [unprivileged]

Prints, as JSON, the mechanism that held, what the cell read back, and what the user's file says afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from accel.private_disk import PrivateDisk
from accel.private_disk.namespace_view import drop_capabilities
from accel.private_disk.private_disk import VARIABLE
from tests.private_disk.ways_of_writing import SETFCAP

KINDS: dict[str, Callable[[Path], Path]] = {}


def kind(function: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """Put it into the table: makes the place and gives the project in it."""
    KINDS[function.__name__.replace("_", " ")] = function
    return function


def project_in(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "model.pt").write_text("yours")
    return project


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def on_two_overlays(root: Path) -> Path:
    """A mount over which Linux lays no third overlay, with a project in it and the user's rights to the top taken away."""
    lower = root / "lower"
    project_in(lower)
    for name in ("first", "second"):
        for part in (name, f"{name}-upper", f"{name}-work"):
            (root / part).mkdir()
        options = f"lowerdir={lower},upperdir={root}/{name}-upper,workdir={root}/{name}-work"
        mount("-t", "overlay", "overlay", "-o", options, root / name)
        lower = root / name
    lower.chmod(0o555)
    return lower


@kind
def where_no_overlay_can_be_laid(root: Path) -> Path:
    return on_two_overlays(root) / "project"


@kind
def with_such_a_temporary_folder(root: Path) -> Path:
    os.environ["TMPDIR"] = str(on_two_overlays(root) / "project")
    return project_in(root)


@kind
def below_a_folder_of_somebody_else(root: Path) -> Path:
    project = project_in(root / "theirs" / "alice")
    os.chown(root / "theirs", 12345, 12345)
    return project


@kind
def beside_a_mount_whose_name_is_not_ascii(root: Path) -> Path:
    data = root / "Données b" / "data"
    data.mkdir(parents=True)
    mount("-t", "tmpfs", "tmpfs", data)
    (data / "images").write_text("1000")
    return project_in(root)


@kind
def on_a_disk_in_run(root: Path) -> Path:
    (root / "disk").mkdir()
    mount("-t", "tmpfs", "tmpfs", "/run")
    place = Path("/run/media/me")
    place.mkdir(parents=True)
    mount("--bind", root / "disk", place)
    return project_in(place)


@kind
def in_memory_below_run(root: Path) -> Path:
    mount("-t", "tmpfs", "tmpfs", "/run")
    return project_in(Path("/run/user/1000"))


@kind
def among_many_folders_with_a_mount(root: Path) -> Path:
    for number in range(70):
        (root / f"user-{number}").mkdir()
    mount("-t", "tmpfs", "tmpfs", root / "user-0")
    return project_in(root / "user-1")


@kind
def beside_a_folder_that_cannot_be_listed(root: Path) -> Path:
    """As Docker's, with mounts in it."""
    layers = root / "docker" / "merged"
    layers.mkdir(parents=True)
    mount("-t", "tmpfs", "tmpfs", layers)
    os.chown(root / "docker", 12345, 12345)
    (root / "docker").chmod(0o711)
    return project_in(root)


@kind
def with_a_mount_in_the_project(root: Path) -> Path:
    project = project_in(root)
    (project / "data").mkdir()
    mount("-t", "tmpfs", "tmpfs", project / "data")
    return project


@kind
def with_a_mount_among_temporary_files(root: Path) -> Path:
    (root / "temporary" / "image").mkdir(parents=True)
    mount("-t", "tmpfs", "tmpfs", root / "temporary" / "image")
    os.environ["TMPDIR"] = os.environ["XDG_CACHE_HOME"] = str(root / "temporary")
    return project_in(root)


@kind
def in_shared_memory(root: Path) -> Path:
    mount("-t", "tmpfs", "tmpfs", "/dev/shm")
    return project_in(Path("/dev/shm"))


def what_a_cell_does(project: Path, folder: Path, mechanism: str, *words: str) -> dict[str, str]:
    """It writes over the user's file, adds one, and reads both. It compiles too, with a cache and a temporary file."""
    os.environ |= {VARIABLE: mechanism, "HOME": str(project)}
    os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
    tempfile.tempdir = None
    earlier = Path(tempfile.gettempdir(), "accel-of-a-hard-place")
    os.chdir(project)
    if "unprivileged" in words:
        drop_capabilities(but=SETFCAP)
    disk = PrivateDisk(str(folder))
    held = disk.enter("A trial", "Move that line to a cell of its own.")
    Path("model.pt").write_text("trial's")
    Path("new").write_text("new")
    os.makedirs("checkpoints/1")
    Path("checkpoints/1/new").write_text("new")
    earlier.write_text("new")
    os.makedirs(os.environ["TORCHINDUCTOR_CACHE_DIR"], exist_ok=True)
    with tempfile.TemporaryDirectory() as compiled:
        if held != "python":  # it lets a cell start no program
            subprocess.run(["touch", f"{compiled}/kernel.o"], check=True)
        built = os.listdir(compiled)
    images = [path.read_text() for path in folder.parent.glob("Donn*/data/images")]
    return {
        "held": held,
        "read back": f"{Path('model.pt').read_text()}, {Path('checkpoints/1/new').read_text()}, {earlier.read_text()}",
        "built": "".join(built),
        "data": "".join(images),
        "rights": Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0],
    }


def main(root: Path, of: str, mechanism: str, *words: str) -> None:
    project = KINDS[of](root)
    folder = root / "private"
    folder.mkdir()
    reads, writes = os.pipe()
    if os.fork() == 0:
        try:
            found = what_a_cell_does(project, folder, mechanism, *words)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        os.write(writes, json.dumps(found).encode())
        os._exit(0)
    os.close(writes)
    with open(reads) as answer:
        found = json.loads(answer.read())
    os.wait()
    print(json.dumps(found | {"after": (project / "model.pt").read_text(), "files": os.listdir(project)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
