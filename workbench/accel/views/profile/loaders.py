"""What the DataLoaders spend their time on: reading, each transform, collating."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from accel.html_parts import bar, heading, note
from accel.units import milliseconds, percent
from accel.views.profile.parts import long_table, time_cell, whole
from accel.views.profile.section import SHOWN_ROWS, Section

if TYPE_CHECKING:
    from accel.profiling.loader_time import LoaderTime, TransformTime
    from accel.profiling.profile import Profile

STAGE_WORDS = {"reading": "Reading (the rest of the data set)", "collating": "Collating the batch"}


def _title(loader: LoaderTime) -> str:
    where = "in the training process" if not loader.workers else f"in each of {loader.workers} workers"
    name = f"Making a batch of {loader.loader or 'a DataLoader'}"
    if loader.not_measured:
        return f"{name}: not measured, {loader.not_measured}"
    return f"{name}: {milliseconds(loader.ms_per_batch)} {where} (median of {loader.batches})"


def _text(profile: Profile) -> Iterator[str]:
    for loader in profile.loaders:
        yield _title(loader)
        yield from map(_line, loader.stages[:SHOWN_ROWS])
        if loader.note:
            yield f"  ({loader.note})"


def _line(stage: TransformTime) -> str:
    name = STAGE_WORDS.get(stage.name, stage.name)
    return f"  {percent(stage.share):>7}  {milliseconds(stage.ms_per_sample):>9} a sample  {name}"


def _html(profile: Profile) -> Iterator[object]:
    for loader in profile.loaders:
        if loader.not_measured:
            yield note(_title(loader))
            continue
        yield heading(_title(loader))
        yield from long_table(
            ["Stage", "A sample", "Share", ""], list(map(_cells, loader.stages)), numeric=(1, 2)
        )
        if loader.note:
            yield note(loader.note)


def _cells(stage: TransformTime) -> list[object]:
    name = STAGE_WORDS.get(stage.name, stage.name)
    return [name, time_cell(stage.ms_per_sample), whole(percent(stage.share)), bar(stage.share)]


LOADERS = Section("loaders", _text, _html)
