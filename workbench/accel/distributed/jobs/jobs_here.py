"""The jobs that a notebook finds: its own and those of kernels that are gone, in the folders where jobs are made."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from accel.distributed.jobs.cluster_file import clusters
from accel.distributed.jobs.job_folder import JobFolder
from accel.distributed.jobs.job_ranks import FOLDER
from accel.distributed.jobs.job_run import JobRun
from accel.distributed.jobs.launchers.here import how_it_ended
from accel.distributed.jobs.launchers.launcher import LaunchState
from accel.distributed.jobs.rank_lines import last_line
from accel.distributed.ranks.rank_messages import RunDone, RunFailed
from accel.errors import AccelError, UnknownName
from accel.shown import Shown, live_panel

Does = Literal["list", "logs", "stop", "cancel", "home", "remove"]
DOES: tuple[str, ...] = get_args(Does)
State = Literal["queued", "running", "done", "failed", "cancelled"]
_LOG_BYTES = 16 << 10


@dataclass(frozen=True)
class JobRow:
    """One job: its state, where it runs, how far it is, and its folder."""

    name: str
    state: State
    where: str
    ranks: int
    seconds: float
    step: int = 0
    loss: float | None = None
    because: str = ""
    is_home: bool = False
    is_stopped: bool = False  # or is to stop
    size_bytes: int = 0
    folder: str = ""

    @property
    def words(self) -> str:
        """Its state, for a list."""
        stopped = (", stopping" if self.state == "running" else ", stopped") if self.is_stopped else ""
        return f"{self.state}{stopped}{', at home' if self.is_home else ''}"

    @property
    def can(self) -> tuple[str, ...]:
        """What may be done with it now, by the words of `%accel jobs`."""
        if self.state in ("queued", "running"):
            return ("logs", "stop", "cancel") if self.state == "running" else ("cancel",)
        return ("logs", "home", "remove") if self.state == "done" and not self.is_home else ("logs", "remove")


@dataclass(frozen=True)
class Jobs(Shown):
    """The jobs that are here, the newest first; `done` says what was just done.

    >>> print(accel.jobs())
    """

    rows: tuple[JobRow, ...]
    folders: tuple[str, ...] = ()
    done: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The rows as plain values."""
        return {"jobs": [asdict(row) for row in self.rows], "done": self.done}

    def panel(self) -> Any:
        """A widget in which they are live, with their logs and buttons."""
        return live_panel(self)


@dataclass(frozen=True)
class JobLogs(Shown):
    """What the launcher and each rank printed, the end of it.

    >>> print(accel.jobs("logs", "20261127-1405-train-9d27"))
    """

    name: str
    texts: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """The texts by whose they are."""
        return {"name": self.name, "texts": dict(self.texts)}


def folders() -> list[Path]:
    """Where jobs are made: beside the notebook, and where the clusters of accel.toml say."""
    named = [Path(each.folder).expanduser().absolute() for each in clusters().values() if each.folder]
    return list(dict.fromkeys([Path(FOLDER).absolute(), *named]))


def jobs_here() -> tuple[JobFolder, ...]:
    """Their folders, the newest first."""
    found = [path.parent for folder in folders() for path in folder.glob("*/job.json")]
    return tuple(JobFolder(path) for path in sorted(found, key=lambda path: path.name, reverse=True))


def job_named(name: str) -> JobFolder:
    """The job of this name, or the one whose name ends or begins so; raises UnknownName."""
    known = {folder.name: folder for folder in jobs_here()}
    alike = (
        [name] if name in known else [each for each in known if each.startswith(name) or each.endswith(name)]
    )
    if len(alike) > 1:
        raise AccelError(
            f"The job {name}", because=f"{len(alike)} jobs are called so: {', '.join(alike[:5])}", do="Use more of its name."
        )  # fmt: skip
    if not alike:
        raise UnknownName("job", name, known)
    return known[alike[0]]


def row_of(folder: JobFolder) -> JobRow:
    """How far a job is, by its folder and its launcher; of one that cannot be read, why."""
    try:
        return _row_of(JobRun(folder))
    except (AccelError, OSError) as error:
        because = f"it cannot be read: {error.because if isinstance(error, AccelError) else error}"
        return JobRow(folder.name, "failed", "", 0, 0.0, because=because, folder=str(folder.path))


def _row_of(run: JobRun) -> JobRow:
    folder, description = run.folder, run.description
    _, answers = folder.answers()
    newest = [
        line
        for line in (last_line(folder.ranks / f"{rank}.jsonl") for rank in range(description.ranks))
        if line
    ]
    state, because = _state_of(run, answers)
    ended_s = max((line.at_s for line in newest), default=description.began_s)
    until = time.time() if state in ("queued", "running") else ended_s
    return JobRow(
        folder.name, state, description.cluster.where, description.ranks, max(0.0, until - description.began_s),
        min((line.step for line in newest), default=0), newest[0].loss if newest and newest[0].step else None,
        because if state in ("queued", "failed") else "", folder.is_home.exists(),
        _is_stopped(folder, state, answers), _size(folder.path), str(folder.path),
    )  # fmt: skip


def _is_stopped(folder: JobFolder, state: State, answers: Mapping[int, RunDone | RunFailed]) -> bool:
    if state == "done":
        return any(isinstance(each, RunDone) and each.was_stopped for each in answers.values())
    return state == "running" and folder.wish_to_stop.exists()


def _state_of(run: JobRun, answers: Mapping[int, RunDone | RunFailed]) -> tuple[State, str]:
    """Answers that fail are no end, where ranks are started again; the launcher is asked only where the folder does not say."""
    folder = run.folder
    if len(answers) == run.description.ranks and all(isinstance(each, RunDone) for each in answers.values()):
        return "done", ""
    if not folder.launched.exists():
        return "failed", "it was not launched"
    is_over = folder.exit_status.exists() and not run.description.max_restarts
    launched = LaunchState("ended", how_it_ended(folder)) if is_over else run.state()
    if launched.word == "ended":
        causes = [(rank, each) for rank, each in sorted(answers.items()) if isinstance(each, RunFailed)]
        causes.sort(key=lambda cause: cause[1].is_communication)
        because = (
            f"rank {causes[0][0]}: {causes[0][1].failed.kind}: {causes[0][1].failed.said}"
            if causes
            else launched.because
        )
        return ("cancelled" if folder.wish_to_cancel.exists() else "failed"), because
    return launched.word, launched.because


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def all_jobs(done: str = "") -> Jobs:
    """Every job here."""
    return Jobs(tuple(map(row_of, jobs_here())), tuple(map(str, folders())), done)


def jobs_asked(
    does: str, name: str | None, take_home: Callable[[JobFolder], object] | None = None, *, anyway: bool = False
) -> object:  # fmt: skip
    """List jobs, or do something with one of them; see `accel.jobs`.

    >>> jobs_asked("cancel", "9d27")

    `take_home` waits for a job and gives its result: what can do that has the notebook's objects.
    """
    if does not in DOES:
        raise UnknownName("word of %accel jobs", does, DOES)
    if does == "list" and name is None:
        return all_jobs()
    if name is None:
        raise AccelError(
            f"%accel jobs {does}", because="it needs the name of a job", do="%accel jobs shows them; the last letters are enough."
        )  # fmt: skip
    folder = job_named(name)
    if does == "list":
        return Jobs((row_of(folder),), (str(folder.path.parent),))
    if does == "logs":
        return _logs(folder)
    if does == "home":
        if take_home is None:
            raise AccelError(
                f"%accel jobs home {name}", because="what it trained belongs to the objects of a notebook",
                do="Open the notebook, run the cells that make them, and type it there.",
            )  # fmt: skip
        if folder.is_home.exists() and not anyway:
            raise AccelError(
                f"%accel jobs home {name}", because="its state is home already, and what you trained since would be lost",
                do=f"%accel jobs home {name} --anyway puts it there once more.",
            )  # fmt: skip
        return take_home(folder)
    return all_jobs(_removed(folder, anyway=anyway) if does == "remove" else _ended(does, folder))


def _removed(folder: JobFolder, *, anyway: bool) -> str:
    row = row_of(folder)
    if row.state in ("queued", "running"):
        raise AccelError(
            f"%accel jobs remove {folder.name}", because=f"it is {row.state}",
            do=f"Cancel it first: %accel jobs cancel {folder.name}.",
        )  # fmt: skip
    if row.state == "done" and not row.is_home and not anyway:
        raise AccelError(
            f"%accel jobs remove {folder.name}", because="what it trained is not home yet, and would be lost",
            do=f"%accel jobs home {folder.name} first; or %accel jobs remove {folder.name} --anyway.",
        )  # fmt: skip
    folder.check_it_is_ours()
    shutil.rmtree(folder.path)
    return f"{folder.name} is removed, with all that it left."


def _ended(does: str, folder: JobFolder) -> str:
    state = row_of(folder).state
    if state not in ("queued", "running"):
        return f"{folder.name} has ended already: it is {state}."
    run = JobRun(folder)
    if does == "stop":
        run.stop()
        return f"The ranks of {folder.name} end after the same step; %accel jobs home {folder.name} brings their state."
    run.cancel()
    return f"{folder.name} is cancelled."


def _logs(folder: JobFolder) -> JobLogs:
    """The ranks first: what the launcher says of them is long."""
    ranks = sorted(folder.ranks.glob("*.txt"), key=lambda file: (len(file.stem), file.stem))
    files = [*((f"rank {file.stem}", file) for file in ranks), ("the launcher", folder.launcher_output)]
    texts = [(whose, _end_of(file)) for whose, file in files if file.exists()]
    return JobLogs(folder.name, tuple((whose, text) for whose, text in texts if text.strip()))


def _end_of(file: Path) -> str:
    data = file.read_bytes()
    if len(data) <= _LOG_BYTES:
        return data.decode(errors="replace")
    whole_lines = data[-_LOG_BYTES:].partition(b"\n")[2]
    return f"[its end; all {len(data):,} bytes are in {file}]\n{whole_lines.decode(errors='replace')}"
