"""Watch the DataLoaders of a cell while it runs, in their worker processes too; everything is put back when it ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any

from accel.hooks.attribute_patches import AttributePatches
from accel.profiling.loader_time import LoaderTime, loader_time
from accel.profiling.pipeline_timer import BatchRecord, FetchTimer, has_unseen_transforms
from accel.workload.roles import names_by_id

if TYPE_CHECKING:
    from accel.workload.phase_marks import PhaseMarks

BATCHES = 8  # of each process: about those that run under torch.profiler, so that later steps are timed free of this
STARTED_BEFORE = "its worker processes were started before this cell (persistent_workers=True)"
OWN_ITERATOR = "its class makes iterators of its own"
UNSEEN = "transforms of an IterableDataset are not measured one by one unless they are in a Compose: they count as reading"


@dataclass
class _Watched:
    """One loader: what its first batches took, and where its workers write that."""

    loader: Any
    path: Path | None
    records: list[BatchRecord] = field(default_factory=list)
    timers: list[FetchTimer] = field(default_factory=list)


class LoaderWatch:
    """Measures the first batches of each DataLoader that the cell iterates over.

    >>> with marks, LoaderWatch(marks) as watch:
    ...     exec(cell)
    >>> watch.found(namespace)[0].stages[0].name
    'RandomRotation'

    Workers append one line a batch to a file of a temporary folder; the batches themselves are not touched. A loader whose
    workers ran already is reported as not measured.
    """

    def __init__(self, marks: PhaseMarks) -> None:
        self._marks = marks
        self._watched: dict[int, _Watched] = {}
        self._unwatched: list[tuple[Any, str]] = []
        self._patches = AttributePatches()
        self._folder: Path | None = None

    def __enter__(self) -> LoaderWatch:
        from torch.utils.data import DataLoader

        self._thread = get_ident()
        with suppress(OSError):  # without a disk, workers are not measured
            self._folder = Path(tempfile.mkdtemp(prefix="accel-loaders-"))
        original: Callable[[Any], Any] = vars(DataLoader)["_get_iterator"]
        self._patches.add(DataLoader, "_get_iterator", lambda loader: self._make_iterator(loader, original))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._patches.take_back()
        for watched in self._watched.values():
            for timer in watched.timers:
                timer.take_off()
            watched.records += _read_records(watched.path)
        self._unwatched = [
            (loader, STARTED_BEFORE if getattr(loader, "persistent_workers", False) else OWN_ITERATOR)
            for role, loader in self._marks.seen
            if role == "loaders" and id(loader) not in self._watched
        ]
        self._remove_folder()

    def _remove_folder(self) -> None:
        """File by file: listing a folder takes a descriptor, and there may be none left."""
        if self._folder is None:
            return
        with suppress(OSError):
            for watched in self._watched.values():
                if watched.path is not None:
                    watched.path.unlink(missing_ok=True)
            self._folder.rmdir()

    def found(self, namespace: Mapping[str, Any]) -> tuple[LoaderTime, ...]:
        """What each loader took, by the names of this namespace; lets go of the loaders."""
        names = names_by_id(namespace)
        measured = [
            loader_time(
                names.get(key, ""),
                watched.loader.num_workers,
                watched.records,
                note=UNSEEN if has_unseen_transforms(watched.loader.dataset) else "",
            )
            for key, watched in self._watched.items()
        ]
        refused = [
            LoaderTime(names.get(id(loader), ""), getattr(loader, "num_workers", 0), 0.0, 0, (), why)
            for loader, why in self._unwatched
        ]
        self._watched, self._unwatched = {}, []
        return (*measured, *refused)

    def _make_iterator(self, loader: Any, original: Callable[[Any], Any]) -> Any:
        if get_ident() != self._thread:
            return original(loader)
        is_first = id(loader) not in self._watched
        watched = self._watched.setdefault(id(loader), _Watched(loader, self._path_for(loader)))
        if loader.num_workers == 0:
            return self._watch_here(watched, original(loader))
        if not is_first or watched.path is None:
            return original(loader)
        return _with_measuring_workers(loader, watched.path, original)

    def _path_for(self, loader: Any) -> Path | None:
        if self._folder is None or not loader.num_workers:
            return None
        return self._folder / f"{len(self._watched)}.jsonl"

    def _watch_here(self, watched: _Watched, iterator: Any) -> Any:
        """A second epoch goes on where the first left off, until enough batches were seen."""
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        missing = BATCHES - len(watched.records)
        if fetcher is not None and missing > 0:
            watched.timers.append(FetchTimer.on(fetcher, watched.records.append, batches=missing))
        return iterator


@dataclass
class MeasureInWorker:
    """Takes the place of a loader's `worker_init_fn` while its workers start: measures there, then calls the user's."""

    user_function: Callable[[int], None] | None
    path: str
    batches: int

    def __call__(self, worker: int) -> None:
        from torch.utils.data import _DatasetKind

        create, left = _DatasetKind.create_fetcher, [self.batches]

        def report(record: BatchRecord) -> None:
            left[0] -= 1
            _append(self.path, record.to_line())

        def create_measured(*args: Any) -> Any:
            fetcher = create(*args)  # type: ignore[no-untyped-call]
            if left[0] > 0:  # a persistent worker makes a new fetcher each epoch
                FetchTimer.on(fetcher, report, batches=left[0], process=worker)
            return fetcher

        _DatasetKind.create_fetcher = staticmethod(create_measured)  # type: ignore[method-assign]
        if self.user_function is not None:
            self.user_function(worker)


def _with_measuring_workers(loader: Any, path: Path, original: Callable[[Any], Any]) -> Any:
    """Start the workers with our function in the place of the user's, which is back before anybody can look."""
    state = vars(loader)
    users = state["worker_init_fn"]
    state["worker_init_fn"] = MeasureInWorker(users, str(path), BATCHES)
    try:
        return original(loader)
    finally:
        state["worker_init_fn"] = users


def _append(path: str, line: str) -> None:
    """One write a line, so that workers do not mix; the folder is gone when the cell is over."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def _read_records(path: Path | None) -> list[BatchRecord]:
    """Whole lines only: a worker may be writing still."""
    if path is None or not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [BatchRecord.from_line(line) for line in lines if line.endswith("\n")]
