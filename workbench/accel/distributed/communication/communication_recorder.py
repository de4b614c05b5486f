"""`--communication` in a rank: some steps watched closely, then nothing of it is left in the training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from accel.distributed.communication.communication_times import BucketTimes, PassTimes, Span, StepTimes
from accel.distributed.ranks.device_clocks import Clock, clock_of

STEPS_TO_RECORD = 10


@dataclass
class SeenBucket:
    """A bucket on its way; marks are the clock's."""

    index: int
    parameters: list[int]
    gradient_bytes: int
    began: Any
    sent_bytes: int = 0
    returned: Any = None
    ended: Any = None


@dataclass
class _Pass:
    began: Any
    ended: Any = None
    ready: dict[int, Any] = field(default_factory=dict)
    buckets: list[SeenBucket] = field(default_factory=list)


@dataclass
class _Step:
    number: int
    began: Any
    ended: Any = None
    forward: list[tuple[Any, Any]] = field(default_factory=list)
    optimizer: list[tuple[Any, Any]] = field(default_factory=list)
    passes: list[_Pass] = field(default_factory=list)


class CommunicationRecorder:
    """Called at each part of a step, it keeps ten steps after DDP has settled, and takes its hooks off again.

    >>> recorder = CommunicationRecorder(settles_after=3)
    >>> recorder.watch(model.parameters())     # DDP was put round it
    >>> recorder.step_ended(1)

    On a CPU an exchange has ended when a thread of the backend says so, which needs the interpreter for a moment.
    """

    def __init__(self, settles_after: int, steps: int = STEPS_TO_RECORD) -> None:
        self.settles_after, self._steps_wanted = settles_after, steps
        self._clock: Clock | None = None
        self._steps: list[_Step] = []
        self._step: _Step | None = None
        self._pass: _Pass | None = None
        self._optimizer_began: Any = None
        self._handles: list[Any] = []
        self._watched: list[Any] = []
        self._is_over = False
        self.passes_seen = 0  # whose gradients DDP exchanged
        self._saw_bucket = False

    def watch(self, parameters: Iterable[Any]) -> None:
        """DDP exchanges the gradients of these from now on."""
        if self._is_over:
            return
        self._watched += [p for p in parameters if p.requires_grad]
        if self._clock is None and self._watched:
            self._clock = clock_of(self._watched[0])

    # --- what the training tells --------------------------------------------------------------------------------------------

    @contextmanager
    def forward(self) -> Iterator[None]:
        """A model is called."""
        if self._step is None:
            yield
            return
        began = self._mark()
        yield
        self._step.forward.append((began, self._mark()))

    def backward_begins(self) -> None:
        """A backward pass."""
        self._saw_bucket = False
        if self._step is not None:
            self._pass = _Pass(self._mark())

    def sends(self, bucket: Any) -> SeenBucket | None:
        """DDP has a bucket full, and it is about to be sent; None where nothing is recorded."""
        self._saw_bucket = True
        if self._pass is None:
            return None
        tensor, parameters = bucket.buffer(), [id(p) for p in bucket.parameters()]
        seen = SeenBucket(
            len(self._pass.buckets), parameters, tensor.numel() * tensor.element_size(), self._mark()
        )
        self._pass.buckets.append(seen)
        return seen

    def sent(self, seen: SeenBucket, sent_bytes: int) -> None:
        """It is on its way, and the backward pass goes on."""
        seen.sent_bytes, seen.returned = sent_bytes, self._mark()

    def arrived(self, seen: SeenBucket) -> None:
        """It is a mean on this rank; called by a thread of the backend."""
        seen.ended = self._mark()

    def backward_ended(self) -> None:
        """The pass is over, and gradients are means."""
        self.passes_seen += self._saw_bucket
        if self._pass is None or self._step is None:
            return
        self._pass.ended = self._mark()
        if self._pass.buckets and all(each.ended is not None for each in self._pass.buckets):
            self._step.passes.append(self._pass)
        self._pass = None

    def optimizer_begins(self) -> None:
        """An optimizer's step."""
        self._optimizer_began = self._mark() if self._step is not None else None

    def optimizer_ended(self) -> None:
        """It is done."""
        if self._step is not None and self._optimizer_began is not None:
            self._step.optimizer.append((self._optimizer_began, self._mark()))
        self._optimizer_began = None

    def step_ended(self, number: int) -> None:
        """Step `number` is over."""
        if self._is_over:
            return
        if self._step is not None:
            self._step.ended = self._mark()
            if self._step.passes:
                self._steps.append(self._step)
            if len(self._steps) >= self._steps_wanted:
                self.close()
                return
        if self.passes_seen >= self.settles_after:
            self._hang_on()
            self._step = _Step(number + 1, self._mark())

    def close(self) -> None:
        """Take the hooks off."""
        self._is_over, self._step, self._pass = True, None, None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._watched.clear()

    # --- what comes of it ---------------------------------------------------------------------------------------------------

    @property
    def has_steps(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._steps)

    @property
    def clock(self) -> Clock | None:
        """Of the device that is trained on; None before DDP is there."""
        return self._clock

    def times(self) -> list[StepTimes]:
        """What was recorded, in seconds."""
        if self._clock is None:
            return []
        self._clock.settle()
        return [self._times_of(step) for step in self._steps]

    def _times_of(self, step: _Step) -> StepTimes:
        return StepTimes(
            step.number, self._at(step.began), self._at(step.ended), [self._span(each) for each in step.forward],
            [self._times_of_pass(each) for each in step.passes], [self._span(each) for each in step.optimizer],
        )  # fmt: skip

    def _times_of_pass(self, each: _Pass) -> PassTimes:
        ready = {key: self._at(mark) for key, mark in each.ready.items()}
        buckets = [
            BucketTimes(
                b.index, len(b.parameters), b.gradient_bytes, b.sent_bytes,
                max((ready[key] for key in b.parameters if key in ready), default=self._at(b.began)),
                self._at(b.began), self._at(b.returned), self._at(b.ended),
            )
            for b in each.buckets
        ]  # fmt: skip
        return PassTimes(self._at(each.began), max(b.ready_s for b in buckets), self._at(each.ended), buckets)

    def _hang_on(self) -> None:
        """Hear of each gradient, of those parameters that are new here."""
        for parameter in self._watched:
            self._handles.append(parameter.register_post_accumulate_grad_hook(self._is_ready))
        self._watched.clear()

    def _is_ready(self, parameter: Any) -> None:
        if self._pass is not None:
            self._pass.ready[id(parameter)] = self._mark()

    def _mark(self) -> Any:
        assert self._clock is not None
        return self._clock.mark()

    def _at(self, mark: Any) -> float:
        assert self._clock is not None
        return self._clock.seconds(mark)

    def _span(self, marks: tuple[Any, Any]) -> Span:
        return self._at(marks[0]), self._at(marks[1])
