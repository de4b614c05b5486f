"""Is what a profile tells of the GPU complete? CUPTI can lose kernels and shift their times without saying so.

Sources: pytorch/pytorch#175790 (in later profiles of one process the GPU's rows are shifted), #192021 (kernels dropped at
the start of later sessions), #118982 (the profiler falls back to the CPU alone). Both cross-checks ask the calls into
the runtime, which are recorded apart from the GPU's rows and stay right: each call that launches work must have its row,
each row its call, and no row may begin before its call or end after a synchronisation that waited for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.device_work import WORK, launch_calls
from accel.profiling.kineto_columns import RUNTIME, is_of

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns
    from accel.profiling.profiled_events import ProfiledEvents

# Fills are not among them: one of no bytes leaves no row.
LAUNCH = re.compile(
    r"(cuda|cu|hip)(Launch(Cooperative)?Kernel|GraphLaunch|Memcpy\w*Async|ModuleLaunchKernel)"
)
DEVICE_SYNC = re.compile(r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize")
CAPTURE_BEGINS, CAPTURE_ENDS = (re.compile(rf"(cuda|cu|hip)Stream{edge}Capture") for edge in ("Begin", "End"))
# Times of CPU and GPU are 8 to 9 µs apart on a healthy H200 (tile-ai/TileOPs#1838); shifts that mislead are of milliseconds.
TOLERANCE_NS = 50_000
NOTHING = "nothing was recorded of the GPU, though the model is on it"
OF_CUPTI = (
    "This is the profiler's fault, not your cell's: before CUDA 13.1, CUPTI can lose or shift GPU events in every profile after "
    "the first one in a process. Restart the kernel and profile again. CPU times are correct."
)


@dataclass(frozen=True)
class Completeness:
    """The stamp on a report; `remedy` is what to do where it is not complete, `is_of_file` says that a file has lost events.

    >>> str(Completeness(False, ("412 of 1,200 launched kernels and copies are missing",)))
    'Incomplete: 412 of 1,200 launched kernels and copies are missing'
    """

    is_complete: bool = True
    reasons: tuple[str, ...] = ()
    remedy: str = OF_CUPTI
    is_of_file: bool = False

    def __str__(self) -> str:
        return "Complete" if self.is_complete else "Incomplete: " + "; ".join(self.reasons)


def check_completeness(events: ProfiledEvents | None, *, uses_gpu: bool = False) -> Completeness:
    """Cross-check the GPU's rows; a trace of the CPU alone is complete unless `uses_gpu` says that there was a GPU at work.

    >>> check_completeness(profile.events, uses_gpu=True)
    Completeness(is_complete=True, reasons=())

    Missing rows only count where their call is in the steps that were kept: the figures are of those.
    """
    reasons = tuple(_reasons(events)) if events else ()
    if uses_gpu and (events is None or not len(_work(events.columns))):
        reasons = (NOTHING,)
    return Completeness(not reasons, reasons)


def _reasons(events: ProfiledEvents) -> Iterator[str]:
    columns, rows = events.columns, _work(events.columns)
    calls = launch_calls(columns)[rows]
    known = calls >= 0
    yield from _missing(events, columns.correlation[rows])
    yield from _without_call(columns, rows, known)
    yield from _too_early(columns, rows[known], calls[known])
    yield from _too_late(columns, rows[known], calls[known])


def _work(columns: KinetoColumns) -> Ints:
    """The rows of kernels, copies and fills."""
    import numpy as np

    return np.flatnonzero(is_of(columns.kind, columns.kinds, WORK) & (columns.device >= 0))


def _missing(events: ProfiledEvents, made: Ints) -> Iterator[str]:
    """Launches of the kept steps that left no row; those that a CUDA graph captured ran later, under its own launch."""
    import numpy as np

    columns, kept = events.columns, events.kept
    launches = _calls_to(columns, LAUNCH) & (columns.correlation > 0)
    launches &= (columns.start_ns >= kept.from_ns) & (columns.start_ns < kept.until_ns)
    launches &= ~_while_capturing(columns)
    count = int(launches.sum())
    missing = count - int(np.isin(columns.correlation[launches], made).sum())
    if missing:
        yield f"{missing:,} of {count:,} launched kernels and copies are missing"


def _without_call(columns: KinetoColumns, rows: Ints, known: Flags) -> Iterator[str]:
    """Rows whose call is missing, though it was made after the first one recorded, and others of their name have theirs.

    What was launched before the recording began has no call, nor has what a library launches by calls that are not recorded.
    """
    import numpy as np

    made = columns.correlation[rows]
    if not known.any() or known.all():
        return
    has_calls = np.isin(columns.name[rows], columns.name[rows[known]])
    missing = int((~known & has_calls & (made > made[known].min())).sum())
    if missing:
        yield f"the calls that launched {missing:,} of {len(rows):,} kernels and copies are missing"


def _while_capturing(columns: KinetoColumns) -> Flags:
    """What began between the begin and the end of a capture, on any thread: backward captures from its own."""
    import numpy as np

    begins = np.sort(columns.start_ns[_calls_to(columns, CAPTURE_BEGINS)])
    ends = np.sort(columns.start_ns[_calls_to(columns, CAPTURE_ENDS)])
    open_captures = np.searchsorted(begins, columns.start_ns, side="right") - np.searchsorted(
        ends, columns.start_ns
    )
    capturing: Flags = open_captures > 0
    return capturing


def _too_early(columns: KinetoColumns, rows: Ints, calls: Ints) -> Iterator[str]:
    """Nothing can begin before the call that launches it."""
    before = columns.start_ns[calls] - columns.start_ns[rows]
    yield from _shifted(before, "begin before they were launched")


def _too_late(columns: KinetoColumns, rows: Ints, calls: Ints) -> Iterator[str]:
    """A synchronisation returns when everything launched before it has ended.

    It waits for the current GPU only, which the trace does not name: asked only where all work is on the first.
    """
    import numpy as np

    syncs = np.flatnonzero(_calls_to(columns, DEVICE_SYNC))
    if not len(syncs) or columns.device[rows].any():
        return
    syncs = syncs[np.argsort(columns.start_ns[syncs], kind="stable")]
    starts, ends = columns.start_ns, columns.start_ns + columns.duration_ns
    place = np.searchsorted(starts[syncs], ends[calls])
    waited_for = place < len(syncs)
    after = ends[rows[waited_for]] - ends[syncs[place[waited_for]]]
    yield from _shifted(after, "end after a synchronisation that waited for them")


def _shifted(by_ns: Ints, what: str) -> Iterator[str]:
    count = int((by_ns > TOLERANCE_NS).sum())
    if count:
        worst = int(by_ns.max()) / 1e6
        yield f"the GPU's times are shifted: {count:,} of {len(by_ns):,} kernels and copies {what}, by up to {worst:,.3g} ms"


def _calls_to(columns: KinetoColumns, function: re.Pattern[str]) -> Flags:
    """Which events are calls into the runtime to a function of that name."""
    import numpy as np

    is_wanted = np.array([bool(function.match(name)) for name in columns.names], dtype=np.bool_)
    return is_wanted[columns.name] & is_of(columns.kind, columns.kinds, RUNTIME)
