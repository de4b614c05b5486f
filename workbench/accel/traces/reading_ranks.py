"""Several trace files, one a rank, read one after the other and compared."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

from accel.errors import AccelError
from accel.traces.aligned_calls import Alignment, align
from accel.traces.rank_facts import RankFacts, read_rank
from accel.traces.ranks_report import ON_GPU, RankRow, RanksReport, SlowestRank
from accel.traces.trace_profile import TraceProfile, read_traces

IN_NAME = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
IN_LABEL = re.compile(r"\[TP(\d+)\]|rank[\s_-]*(\d+)", re.IGNORECASE)  # SGLang's merged traces: "[TP01] 4711"
LEAST_SHARE = 0.05  # of a step: what is less is not worth a reader's time


def read_ranks(
    paths: Sequence[Path], *, each: Callable[[TraceProfile], TraceProfile] | None = None
) -> RanksReport | TraceProfile:
    """The comparison of all processes in the files; the plain report where there is only one.

    >>> read_ranks([Path("rank0.json.gz"), Path("rank1.json.gz")]).straggler

    What is no trace is named in the notes; AccelError when nothing is.
    """
    only: TraceProfile | None = None  # with its events, until there is a second
    unread: list[AccelError] = []
    ranks: list[RankFacts] = []
    notes: list[str] = []
    for path in paths:
        try:
            profiles = [each(profile) if each else profile for profile in read_traces(path)]
        except AccelError as error:
            unread.append(error)
            continue
        for profile in profiles:
            rank = _rank(profile, path, {known.rank for known in ranks}, notes)
            ranks.append(read_rank(rank, profile))
            only = profile if len(ranks) == 1 else None
    if not ranks:
        raise unread[0]
    notes += [f"Left out: {error.asked.removeprefix('open ')}: {error.because}." for error in unread]
    if only is not None:
        return replace(only, notes=(*only.notes, *(note for note in notes if note.startswith("Left out: "))))
    return compare(ranks, notes)


def _rank(profile: TraceProfile, path: Path, taken: set[int], notes: list[str]) -> int:
    """The rank that the trace tells, else its file's name, else the next one free."""
    process = profile.source.process
    in_name = IN_LABEL.search(process) if process else IN_NAME.search(path.name)
    named = int(next(filter(None, in_name.groups()))) if in_name else None
    for rank in (profile.source.rank, named):
        if rank is not None and rank not in taken:
            return rank
    free = next(number for number in range(len(taken) + 1) if number not in taken)
    whose = f"Process {process} of {path.name}" if process else path.name
    notes.append(
        f"{whose} gives no rank, or a rank that another trace already has; this report calls it rank {free}."
    )
    return free


def compare(ranks: Sequence[RankFacts], notes: Sequence[str] = ()) -> RanksReport:
    """Put ranks next to each other, in the order of their numbers."""
    ranks = sorted(ranks, key=lambda rank: rank.rank)
    aligned = align(ranks)
    sizes = [size for rank in ranks if (size := rank.profile.source.world_size)]
    unrelated, damaged = why_unrelated(ranks), _damaged(ranks)
    world = max(sizes) if sizes and not unrelated else None
    missing = tuple(sorted(set(range(world or 0)) - {rank.rank for rank in ranks}))
    return RanksReport(
        rows=tuple(_row(rank, aligned) for rank in ranks),
        straggler=None if unrelated or damaged else find_straggler(ranks),
        calls=aligned.calls,
        missing=missing,
        world_size=world,
        notes=(*_notes(ranks, aligned, missing), *notes),
        profiles=tuple(rank.profile for rank in ranks),
        unrelated=unrelated,
        damaged=damaged,
    )


def _damaged(ranks: Sequence[RankFacts]) -> tuple[int, ...]:
    """The ranks whose files have lost events: their own work is unknown."""
    return tuple(rank.rank for rank in ranks if rank.profile.completeness.is_of_file)


def why_unrelated(ranks: Sequence[RankFacts]) -> str:
    """Why these traces are not the ranks of one run, or cannot wait for each other; "" where nothing speaks against it.

    A folder may hold the traces of several runs, or of one before and after a change.
    """
    numbers = [source.rank for rank in ranks if (source := rank.profile.source).rank is not None]
    twice = next((rank for rank in numbers if numbers.count(rank) > 1), None)
    sizes = {size for rank in ranks if (size := rank.profile.source.world_size)}
    if twice is not None:
        return (
            f"These traces are not of one run ({numbers.count(twice)} of them say that they are rank {twice})"
        )
    if len(sizes) > 1:
        return f"These traces are not of one run (they tell of {' and '.join(map(str, sorted(sizes)))} ranks)"
    if len(ranks) > 1 and not any(rank.communication_ms for rank in ranks):
        return "Nothing is communicated in these traces, so that no rank can hold another up"
    return ""


def _row(rank: RankFacts, aligned: Alignment) -> RankRow:
    profile = rank.profile
    return RankRow(
        rank=rank.rank, host=profile.source.host, steps=profile.steps,
        step_ms=profile.timing.cell_ms if math.isnan(profile.step_ms) else profile.step_ms,
        own_ms=median(rank.own_ms), communication_ms=rank.communication_ms, overlap_share=rank.overlap_share,
        exposed_ms=rank.exposed_ms, late_ms=aligned.late_ms.get(rank.rank),
    )  # fmt: skip


def find_straggler(ranks: Sequence[RankFacts]) -> SlowestRank | None:
    """The rank with most own work, when its faster steps have more of it than the slower steps of the others.

    Step times alone cannot tell: in synchronous training all ranks take as long as the slowest.
    """
    if len(ranks) < 2:
        return None
    slowest = max(ranks, key=lambda rank: median(rank.own_ms))
    others = [rank for rank in ranks if rank is not slowest]
    by_ms = median(slowest.own_ms) - median(median(rank.own_ms) for rank in others)
    step_ms = max(median(rank.own_ms) + rank.exposed_ms for rank in ranks)
    if (
        len(slowest.own_ms) < 2
    ):  # a single step may be chance: the rank has to stand out from each of the others
        by_ms = min(by_ms, slowest.own_ms[0] - max(median(rank.own_ms) for rank in others))
    if by_ms < LEAST_SHARE * step_ms or _quartile(slowest, 0) <= median(
        _quartile(rank, 2) for rank in others
    ):
        return None
    return SlowestRank(slowest.rank, by_ms, by_ms / step_ms, *_place(slowest, others, by_ms))


def _quartile(rank: RankFacts, which: int) -> float:
    times = rank.own_ms
    return quantiles(times, n=4, method="inclusive")[which] if len(times) > 1 else times[0]


def _place(slowest: RankFacts, others: Sequence[RankFacts], by_ms: float) -> tuple[str, float]:
    """Where it loses most: on the GPU where the kernels themselves take longer (the CPU then only waits), else in a phase."""
    on_gpu = slowest.gpu_ms - median(rank.gpu_ms for rank in others)
    if on_gpu >= by_ms / 2:
        return ON_GPU, on_gpu
    excess = {
        name: ms - median(rank.own_phases.get(name, 0.0) for rank in others)
        for name, ms in slowest.own_phases.items()
    }
    return max(excess.items(), key=lambda found: found[1])


def _notes(ranks: Sequence[RankFacts], aligned: Alignment, missing: tuple[int, ...]) -> list[str]:
    notes = []
    if missing:
        shown = ", ".join(map(str, missing[:20])) + (", …" if len(missing) > 20 else "")
        notes.append(f"Ranks without a trace: {shown}. A straggler among them cannot be seen.")
    apart = max(map(abs, aligned.offsets_ms.values()), default=0.0)
    if apart > 1:
        notes.append(
            f"Clocks of the ranks are up to {apart:.3g} ms apart; they were put right by the ends of collectives."
        )
    if aligned.differing:
        notes.append(f"Not on all ranks equally often, so not compared: {', '.join(aligned.differing[:5])}.")
    notes += [f"Rank {rank.rank}: {said}" for rank in ranks for said in rank.profile.damage]
    return notes
