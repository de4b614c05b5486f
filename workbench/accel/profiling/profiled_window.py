"""A few steps of a cell under torch.profiler: opened with the cell, closed at an idle moment some steps later."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from accel.profiling.kineto_columns import with_metadata
from accel.profiling.profile_options import ProfileOptions
from accel.profiling.quiet_stderr import profiler_lines_aside
from accel.profiling.user_lines import UserLines
from accel.units import counted

if TYPE_CHECKING:
    from accel.workload.phase_marks import PhaseMarks

USER_PROFILES = "your cell runs torch.profiler itself, so op shares were not taken"
MAX_EVENTS = 600_000  # about 1 s to stop and 0.7 GB to read; 10⁶ events cost 2.4 s and 1.7 GB
MAX_S_WITH_A_STEP = 20.0
MAX_S = 60.0
PATIENCE = 4


class ProfiledWindow:
    """Profile the first `warmup` + `options.steps` steps of a cell; later steps run free of the profiler.

    >>> with marks, ProfiledWindow(marks) as window:
    ...     exec(cell)
    >>> window.reason, len(window.events)
    ('', 5530)

    `events` are raw kineto events, parsed when first read. `window_ns` is (opened, closed) on `time.perf_counter_ns`;
    it includes the profiler's own start and stop, so that a step which paid for them is known. `reason` says why the
    window closed early or never opened; it is empty when all went as planned. `raised` names the exception that went
    through, if one did.
    """

    def __init__(self, marks: PhaseMarks, options: ProfileOptions | None = None, *, warmup: int = 2) -> None:
        self.marks, self.options, self.warmup = marks, options or ProfileOptions(), warmup
        self.reason = ""
        self.window_ns: tuple[int, int] | None = None
        self._opened_ns = self._first_sequence = 0
        self.profiler_said: list[str] = []
        self.raised = ""
        self.user_lines = UserLines()
        self._profiler: Any = None
        self._is_open = False
        self._events: list[Any] | None = None
        self._unpatch: Callable[[], None] = _nothing

    def __enter__(self) -> ProfiledWindow:
        if _is_profiling():
            self.reason = USER_PROFILES
            return self
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.raised = "" if kind is None else kind.__name__
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether the profiler runs now."""
        return self._is_open

    @property
    def events(self) -> list[Any]:
        """Raw kineto events in the order the profiler gives them; empty when nothing was recorded."""
        if self._events is None:
            results = None if self._is_open or self._profiler is None else self._profiler.kineto_results
            self._events = list(results.events()) if results is not None else []
            self._profiler = None
        return self._events

    def close(self, reason: str = "") -> None:
        """Stop the profiler, once; later calls do nothing."""
        if not self._is_open:
            return
        self.reason = reason
        self.user_lines.stop()
        self._unpatch()
        self._unpatch = _nothing
        self.marks.on_idle = None
        self.marks.ranges = "off"  # ranges that are not recorded cost a short step a few per cent
        with profiler_lines_aside() as said:
            try:
                self._profiler.__exit__(None, None, None)
            except RuntimeError as error:  # the profiler's fault must not become the cell's
                self.reason, self._profiler = f"torch.profiler could not stop: {error}", None
            finally:
                self._is_open = (
                    _is_profiling()
                )  # after an interrupt it may still run: leaving the window stops it
        self.profiler_said += said
        self.window_ns = (self._opened_ns, time.perf_counter_ns())

    def _open(self) -> None:
        import torch
        from torch.autograd.profiler import profile

        # Not torch.profiler.profile: its start imports torch._inductor, seconds in a fresh kernel, for CUDA graphs.
        device = "cuda" if torch.cuda.is_available() else None
        self._opened_ns, self._first_sequence = time.perf_counter_ns(), _operations_recorded()
        self._profiler = profile(
            use_kineto=True, use_cpu=True, use_device=device,
            record_shapes=self.options.shapes, profile_memory=self.options.memory,
            experimental_config=with_metadata() if device else None,
        )  # fmt: skip
        # torch logs the first free of a block from before, and then each thousandth: let the first be ours.
        block = torch.empty(1) if self.options.memory else None
        try:
            with profiler_lines_aside() as said:
                self._profiler.__enter__()
                del block
            self.profiler_said += said
            self._is_open = True
            self.marks.ranges = "modules"
            self.marks.on_idle = self._look
            self._unpatch = _before_another_profiler(self._give_way)
            if self.options.stacks:
                self.user_lines.start()
        except RuntimeError as error:
            self.reason, self._profiler = f"torch.profiler could not start: {error}", None
        except BaseException:  # interrupted: no caller leaves a window that was never entered
            self._is_open = _is_profiling()
            self.close()
            raise

    def _look(self, boundaries: int) -> None:
        """Between two phases: is it time to close?"""
        # Without an optimizer step so far boundaries are backward passes, which may be micro-batches of a first step.
        patience = PATIENCE if self.marks.first_optimizer is None else 1
        if boundaries >= patience * (self.warmup + self.options.steps):
            self.close()
            return
        compiled = [note.time_ns for note in self.marks.boundary_notes if note.compiled]
        elapsed_s = (time.perf_counter_ns() - max([self._opened_ns, *compiled])) / 1e9
        if elapsed_s > (MAX_S_WITH_A_STEP if boundaries else MAX_S):
            self.close(
                f"profiling stopped after {elapsed_s:.0f} s and {counted(boundaries, 'step')}, to keep your cell fast"
            )
        elif self._estimated_events() > MAX_EVENTS:
            self.close(
                f"profiling stopped after {counted(boundaries, 'step')}: so many operations would fill the memory"
            )

    def _estimated_events(self) -> int:
        """The profiler does not tell: about 40 events a graph node (30–60 seen), 10 a mark where there is no graph."""
        operations = max(40 * (_operations_recorded() - self._first_sequence), 10 * len(self.marks.marks))
        return (2 if self.options.memory else 1) * operations + self.user_lines.count

    def _give_way(self) -> None:
        """The cell starts a profiler of its own: only one can run, and the user's is the one that was asked for."""
        self.close(USER_PROFILES)
        self._profiler, self._events = None, []


def _nothing() -> None:
    """Nothing to take off yet."""


def _is_profiling() -> bool:
    from torch._C._autograd import _profiler_enabled

    return _profiler_enabled()


def _operations_recorded() -> int:
    """The autograd sequence number of this thread: one per operation that got a node in the graph."""
    from torch._C._autograd import _get_sequence_nr

    return _get_sequence_nr()


def _before_another_profiler(give_way: Callable[[], None]) -> Callable[[], None]:
    """Call `give_way` when anything starts a profiler; returns what takes the watch off again."""
    import torch.autograd.profiler as profiler

    watched = {name: getattr(profiler, name) for name in ("_prepare_profiler", "_enable_profiler")}

    def watch(name: str) -> Callable[..., Any]:
        def start(*args: Any, **options: Any) -> Any:
            give_way()
            return watched[name](*args, **options)

        return start

    for name in watched:
        setattr(profiler, name, watch(name))

    def unpatch() -> None:
        for name, original in watched.items():
            setattr(profiler, name, original)

    return unpatch
