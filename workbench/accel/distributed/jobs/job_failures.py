"""Why a job failed: the rank that caused it, by the ranks' own answers, by where they stood, and by what the launcher says."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from accel.distributed.jobs.job_folder import JobDescription, JobFolder
from accel.distributed.jobs.launchers.launcher import Blame, LaunchState
from accel.distributed.jobs.rank_lines import Began, last_line
from accel.distributed.ranks.failed_run import Trouble, error_of, of_failure
from accel.distributed.ranks.rank_messages import RunDone, RunFailed
from accel.distributed.ranks.rank_page import RankLane
from accel.errors import AccelError
from accel.units import counted

_SAFE = "The notebook's own objects are as they were."
_NO_WAY_IN = r"^(ssh: .*|.*Permission denied.*|Host key verification failed.*)$"
_LAST_BYTES = 4_000
_LONG_S = 10.0  # a rank that trains writes several lines a second, then one in five
_FULL_BYTES = 1 << 20


@dataclass(frozen=True)
class EndedJob:
    """A job that did not end well, as its folder and its launcher have it."""

    folder: JobFolder
    description: JobDescription
    lanes: tuple[RankLane, ...]
    began: tuple[Began | None, ...]  # of each rank
    state: LaunchState
    blamed: Blame | None
    is_cancelled: bool  # by somebody; not by who waited for it in vain


def error_of_job(run: EndedJob, failed: Mapping[int, RunFailed], done: Mapping[int, RunDone]) -> AccelError:
    """One error for all: that of the rank whose trouble is its own.

    >>> raise error_of_job(EndedJob(...), {1: failed}, {})
    """
    ranks = run.description.ranks
    lanes = run.lanes or tuple(RankLane(rank) for rank in range(ranks))
    if run.is_cancelled and all(
        each.is_communication for each in failed.values()
    ):  # ranks that end lose each other
        return AccelError(
            f"{run.description.asked} as job {run.folder.name}", because="the job was cancelled",
            do=f"Run the cell again. {_SAFE}",
        )  # fmt: skip
    trouble = [of_failure(rank, answer) for rank, answer in failed.items()]
    silent = [rank for rank in range(ranks) if rank not in failed and rank not in done]
    if silent and not any(not each.is_consequence for each in trouble):
        trouble.append(_of_silent(run, silent, lanes))
    if not silent and (lost := _lost_each_other(run, trouble)) is not None:
        trouble = [lost]
    where = f"Its files are in {run.folder.path}."
    return error_of(
        [replace(each, do=f"{each.do} {where}") for each in trouble], run.description.asked, lanes, done
    )


def _lost_each_other(run: EndedJob, trouble: list[Trouble]) -> Trouble | None:
    """Where every rank only lost the others, and they are on several hosts, it is the way between these that broke."""
    hosts = {each.rank: began.ready.host for each in trouble if (began := run.began[each.rank]) is not None}
    if len({*hosts.values()}) < 2 or not all(each.is_consequence for each in trouble):
        return None
    first = trouble[0]
    others = ", ".join(sorted({*hosts.values()} - {hosts.get(first.rank, "")}))
    return replace(
        first, is_consequence=False, failed=None, because=f"it lost the ranks on {others}: {first.because}",
        do=f"See whether the network between {' and '.join(sorted({*hosts.values()}))} is up, and its interface right. {_SAFE}",
    )  # fmt: skip


def _of_silent(run: EndedJob, silent: list[int], lanes: tuple[RankLane, ...]) -> Trouble:
    """Ranks that never answered: one of them was killed, its machine is gone, or it stands still."""
    stands = _stands(run)
    if stuck := [rank for rank in silent if rank in stands]:
        rank = min(stuck, key=lambda each: lanes[each].step)
        return Trouble(
            rank, f"it did not come on for {run.folder.request().options.timeout_s:g} s, in step {lanes[rank].step + 1}",
            f"Where it stood is above, its innermost line first. {_SAFE}", f"rank {rank} stood here:\n{stands[rank]}",
        )  # fmt: skip
    began = {rank: run.began[rank] for rank in silent}
    never = [rank for rank, each in began.items() if each is None]
    blamed = run.blamed if run.blamed is not None and run.blamed.rank in silent else None
    rank = (
        blamed.rank
        if blamed is not None
        else min(silent, key=lambda each: (_last_word_s(run, each), lanes[each].step))
    )
    state = run.state
    if len(never) == run.description.ranks:
        said = _launcher_said(run)
        found = re.search(_NO_WAY_IN, said, re.MULTILINE)
        why, do = (
            (f"{found[0].strip()}", "Try that host by hand: ssh HOST true. ")
            if found
            else (state.because or "the launcher ended", "")
        )
        return Trouble(rank, f"no rank began: {why}{_full(run)}", f"{do}{_SAFE}", said)
    told, silent_s = began[rank], time.time() - _last_word_s(run, rank)
    host = f" on {told.ready.host}" if told else ""
    ago = f", {silent_s:.0f} s after its last word" if silent_s > _LONG_S else ""
    says = blamed.how if blamed is not None else state.because or "it was killed"
    also = f" Then {counted(len(silent) - 1, 'other rank')} ended too." if len(silent) > 1 else ""
    return Trouble(
        rank, f"it ended{host} without an answer{ago}; the launcher says: {says}{_full(run)}",
        f"Its last lines, and the launcher's, are above.{also} {_SAFE}", _launcher_said(run, rank),
    )  # fmt: skip


def _last_word_s(run: EndedJob, rank: int) -> float:
    """When it was written, in seconds since 1970."""
    line = last_line(run.folder.ranks / f"{rank}.jsonl")
    return line.at_s if line is not None else run.description.began_s


def _stands(run: EndedJob) -> dict[int, str]:
    """Where the ranks stand that said so last."""
    lines = {rank: last_line(run.folder.ranks / f"{rank}.jsonl") for rank in range(run.description.ranks)}
    return {rank: line.stands for rank, line in lines.items() if line is not None and line.stands}


def _launcher_said(run: EndedJob, rank: int | None = None) -> str:
    texts = []
    files = [run.folder.launcher_output] + ([run.folder.ranks / f"{rank}.txt"] if rank is not None else [])
    for file in files:
        if file.exists():
            texts.append(file.read_bytes()[-_LAST_BYTES:].decode(errors="replace").replace("\r", "").rstrip())
    return "\n".join(filter(None, texts))


def _full(run: EndedJob) -> str:
    """A disk without room is why nothing was said."""
    free = shutil.disk_usage(run.folder.path).free
    return f"; the disk of the job's folder is full ({free:,} bytes are free)" if free < _FULL_BYTES else ""
