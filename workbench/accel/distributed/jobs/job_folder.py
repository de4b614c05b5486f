"""A job on disk: what each file in its folder is called, and which of them may be believed.

Everything that passes between a notebook and the ranks of a job lies in this folder: it outlives both, and every machine sees
it. Objects travel as pickles, which run code as they are read. So the folder is its user's alone, and a pickle is read only
where its seal is right: a keyed hash, made with a key that never leaves the folder (docs/decisions/0024).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.ranks.rank_messages import RunDone, RunFailed, RunRequest
from accel.errors import AccelError
from accel.workload.memory_file import MemoryFile

_SEAL_BYTES = 32
_PIECE_BYTES = 8 << 20
Message = TypeVar("Message")


class JobDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What a job is: `job.json`, for a person and for a kernel that finds it again."""

    name: str
    asked: str
    cluster: Cluster
    ranks: int
    began_s: float  # seconds since 1970
    host: str  # where it was launched
    versions: dict[str, str]
    threads: int | None = None
    max_restarts: int = 0


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """What the launcher goes by: a process of a machine, or the number of a job in SLURM."""

    pid: int = 0
    start: str = (
        ""  # when the process began, since which start of the system: a pid alone may be another's by now
    )
    host: str = ""
    job: str = ""  # its number, and after a semicolon its cluster, where SLURM has several


class JobFolder:
    """The folder of one job.

    >>> folder = JobFolder.make(Path("accel-jobs"), "train")
    >>> folder.write_request(request, parcel.blob, parcel.memory.descriptor)
    >>> folder.request(), folder.blob()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ranks = path / "ranks"
        self.script, self.launch_script = path / "run.py", path / "launch.sh"
        self.launcher_output, self.exit_status = path / "launcher.txt", path / "exit_status"
        self.wish_to_stop, self.wish_to_cancel = path / "stop", path / "cancel"
        self.launched, self.is_home = path / "launched.json", path / "is_home"

    @property
    def name(self) -> str:
        """The last part of its path: how a job is called."""
        return self.path.name

    @classmethod
    def make(cls, parent: Path, of: str) -> JobFolder:
        """A new one in `parent`, which is made too; only this user may look into it."""
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{of}-{secrets.token_hex(2)}"
        folder = cls(parent.expanduser().absolute() / name)
        try:
            place = folder.path.parent
            if not place.exists():
                place.mkdir(parents=True)
                (place / ".gitignore").write_text("*\n")  # objects and keys belong into no repository
            folder.path.mkdir(mode=0o700)
            folder.ranks.mkdir(mode=0o700)
            _write(folder.path / "key", secrets.token_bytes(32))
        except OSError as error:
            raise AccelError(
                "Making a folder for the job", because=f"{parent} does not take one: {error.strerror or error}",
                do="Free some room there, or name another with folder = in accel.toml.",
            ) from None  # fmt: skip
        return folder

    # --- what the notebook writes ----------------------------------------------------------------------------------------

    def write_request(self, request: RunRequest, blob: bytes, memory: int) -> None:
        """The request, readable; the objects of the notebook, sealed; and their tensors (`memory` is a descriptor)."""
        _write(self.path / "cell.py", request.source.encode())
        self.write_json("request.json", msgspec.structs.replace(request, environment={}))
        self._write_sealed("environment.bin", msgspec.json.encode(request.environment))  # may hold passwords
        self._write_sealed("objects.bin", blob)
        _copy(memory, self.path / "tensors.bin")

    def write_json(self, name: str, message: msgspec.Struct) -> None:
        """Whole or not at all, for a person to read too."""
        _write(self.path / name, msgspec.json.format(msgspec.json.encode(message), indent=2))

    def write_text(self, path: Path, text: str, *, is_program: bool = False) -> None:
        """A script."""
        _write(path, text.encode(), mode=0o700 if is_program else 0o600)

    # --- what a rank reads, and answers ----------------------------------------------------------------------------------

    def description(self) -> JobDescription:
        """What the job is."""
        found: JobDescription = self.read_json("job.json", JobDescription)
        return found

    def request(self) -> RunRequest:
        """What was asked."""
        found: RunRequest = self.read_json("request.json", RunRequest)
        return found

    def environment(self) -> dict[str, str]:
        """The variables that the notebook had set."""
        found: dict[str, str] = msgspec.json.decode(self._read_sealed("environment.bin"), type=dict[str, str])
        return found

    def blob(self) -> bytes:
        """The pickle of the notebook's objects, if its seal is right."""
        return self._read_sealed("objects.bin")

    def memory(self) -> MemoryFile:
        """Their tensors."""
        return MemoryFile(os.open(self.path / "tensors.bin", os.O_RDONLY | os.O_CLOEXEC))

    def write_answer(
        self,
        rank: int,
        attempt: int,
        answer: RunDone | RunFailed,
        blob: bytes = b"",
        memory: MemoryFile | None = None,
    ) -> None:
        """What became of the run in a rank; the pickle and its memory first, so that whoever sees an answer finds all of it."""
        if memory is not None:
            self._write_sealed(f"ranks/{rank}.home.bin", blob)
            _copy(memory.descriptor, self.ranks / f"{rank}.tensors.bin")
        self.write_json(f"ranks/{rank}.answer-{attempt}.json", answer)

    def answers(self) -> tuple[int, dict[int, RunDone | RunFailed]]:
        """Of the latest attempt that any rank answered: its number, and the answers by rank."""
        found: dict[int, dict[int, RunDone | RunFailed]] = {}
        for file in self.ranks.glob("*.answer-*.json"):
            rank, _, attempt = file.name.removesuffix(".json").partition(".answer-")
            if rank.isdigit() and attempt.isdigit():
                found.setdefault(int(attempt), {})[int(rank)] = self.read_json(
                    f"ranks/{file.name}", RunDone | RunFailed
                )
        latest = max(found, default=0)
        return latest, found.get(latest, {})

    def look_anew(self) -> None:
        """Let a shared disk show what others have written: a change of a folder of one's own does that."""
        sign = self.ranks / f".look.{os.getpid()}"
        with suppress(OSError):
            sign.touch(0o600)
            sign.unlink()

    def home(self, rank: int) -> tuple[bytes, int | None]:
        """The pickle that a rank sent home, if its seal is right, and a descriptor of its memory; None where there is none."""
        if not (self.ranks / f"{rank}.home.bin").exists():
            return b"", None
        blob = self._read_sealed(f"ranks/{rank}.home.bin")
        return blob, os.open(self.ranks / f"{rank}.tensors.bin", os.O_RDONLY | os.O_CLOEXEC)

    def read_json(self, name: str, kind: type[Message] | Any) -> Any:
        """A message of this kind; raises AccelError where the file holds none."""
        try:
            return msgspec.json.decode((self.path / name).read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError) as error:
            raise self._unreadable(name, str(error)) from None

    # --- seals -----------------------------------------------------------------------------------------------------------

    def _write_sealed(self, name: str, data: bytes) -> None:
        _write(self.path / name, self._seal(name, data) + data)

    def _read_sealed(self, name: str) -> bytes:
        self.check_it_is_ours()
        try:
            data = (self.path / name).read_bytes()
        except OSError as error:
            raise self._unreadable(name, error.strerror or str(error)) from None
        seal, data = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(name, data)):
            raise self._unreadable(
                name, "its seal is not that of this job: it is damaged, or another wrote it"
            )
        return data

    def _seal(self, name: str, data: bytes) -> bytes:
        key = (self.path / "key").read_bytes()
        return hashlib.blake2b(name.encode() + b"\0" + data, key=key, digest_size=_SEAL_BYTES).digest()

    def check_it_is_ours(self) -> None:
        """Raises AccelError where another user could have written into the folder."""
        for path in (self.path, self.ranks, self.path / "key"):
            try:
                status = os.lstat(path)
            except OSError as error:
                raise self._unreadable(path.name, error.strerror or str(error)) from None
            if (
                status.st_uid != os.getuid()
                or stat.S_IMODE(status.st_mode) & 0o077
                or stat.S_ISLNK(status.st_mode)
            ):
                raise self._unreadable(
                    path.name, "others than you may write there, and what it holds would run as you"
                )

    def _unreadable(self, name: str, because: str) -> AccelError:
        return AccelError(
            f"Reading {name} of the job {self.name}",
            because=because,
            do=f"The job's files are in {self.path}.",
        )


def _write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """In one piece: who reads sees all of it or nothing."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def _copy(source: int, path: Path) -> None:
    """The file behind a descriptor, whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(
            os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb"
        ) as target:
            at, size = 0, os.fstat(source).st_size
            while at < size:
                piece = os.pread(source, min(_PIECE_BYTES, size - at), at)
                target.write(piece)
                at += len(piece)
            target.flush()
            os.fsync(target.fileno())
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
