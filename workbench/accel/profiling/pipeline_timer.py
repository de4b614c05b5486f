"""Time the stages of a data pipeline from inside one fetcher of a DataLoader: in the training process or in a worker.

Nothing is drawn from a random number generator, batches pass unchanged, and what is replaced for the length of one fetch is
put back before the batch leaves. The attributes of an IterableDataset are left alone, since its generator may take one into
a variable and keep it; whatever else the user's code keeps calls straight through once the fetch is over.
"""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import get_ident
from time import perf_counter_ns
from typing import Any, NamedTuple

READING, COLLATING = "reading", "collating"
COMPOSED = (
    ("torchvision.transforms.transforms", "__call__"),
    ("torchvision.transforms.v2._container", "forward"),
)
WRAPPED = ("dataset", "datasets")  # where Subset, ConcatDataset and their like keep what they wrap
DEEPEST = 6


class BatchRecord(NamedTuple):
    """One batch: ns and calls by stage; a stage's time is without that of stages inside it."""

    process: int
    samples: int
    total_ns: int
    stages: dict[str, tuple[int, int]]

    def to_line(self) -> str:
        """As one line of JSON, which a worker appends to its file."""
        return json.dumps([self.process, self.samples, self.total_ns, self.stages]) + "\n"

    @classmethod
    def from_line(cls, line: str) -> BatchRecord:
        """The record that `to_line` wrote."""
        process, samples, total_ns, stages = json.loads(line)
        return cls(process, samples, total_ns, {name: (ns, calls) for name, (ns, calls) in stages.items()})


class BatchClock:
    """Own time of nested stages, on one thread.

    >>> clock = BatchClock(); clock.run("reading", dataset.__getitem__, 0); clock.stages
    {'reading': (52100, 1)}
    """

    def __init__(self) -> None:
        self.stages: dict[str, tuple[int, int]] = {}
        self.is_over = False
        self._inside: list[int] = []
        self._thread = get_ident()

    def run(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the function and add its time, less that of stages inside it, to `name`."""
        if (
            get_ident() != self._thread
        ):  # a data set with threads of its own: they overlap, and have no own time
            return function(*args, **kwargs)
        self._inside.append(0)
        started = perf_counter_ns()
        try:
            return function(*args, **kwargs)
        finally:
            elapsed, inside = perf_counter_ns() - started, self._inside.pop()
            before = self.stages.get(name, (0, 0))
            self.stages[name] = before[0] + elapsed - inside, before[1] + 1
            if self._inside:
                self._inside[-1] += elapsed


class FetchTimer:
    """Stands for `fetcher.fetch` during its next batches, reports each, and then takes itself off.

    >>> FetchTimer.on(fetcher, records.append, batches=8)
    """

    def __init__(
        self, fetcher: Any, report: Callable[[BatchRecord], None], batches: int, process: int
    ) -> None:
        self._fetcher = weakref.ref(fetcher)  # the data set must not live longer because it was watched
        self._report, self._left, self._process = report, batches, process

    @classmethod
    def on(
        cls, fetcher: Any, report: Callable[[BatchRecord], None], *, batches: int, process: int = 0
    ) -> FetchTimer:
        """Put a timer on a fetcher of torch.utils.data."""
        timer = cls(fetcher, report, batches, process)
        vars(fetcher)["fetch"] = timer
        return timer

    def take_off(self) -> None:
        """Give the fetcher its own method back; calling it again does nothing."""
        fetcher = self._fetcher()
        if fetcher is not None and vars(fetcher).get("fetch") is self:
            del vars(fetcher)["fetch"]

    def __call__(self, index: Any) -> Any:
        fetcher = self._fetcher()
        assert fetcher is not None, "a fetcher calls this itself"
        clock, sizes = BatchClock(), [1]
        with ExitStack() as undo:
            try:
                _watch_stages(fetcher, clock, sizes, undo)
            except Exception:  # of the user's objects: reading is timed as a whole
                undo.close()
            try:
                batch = clock.run(READING, type(fetcher).fetch, fetcher, index)
            finally:
                clock.is_over = True
        stages = clock.stages
        self._report(BatchRecord(self._process, sizes[0], sum(ns for ns, _ in stages.values()), stages))
        self._left -= 1
        if self._left <= 0:
            self.take_off()
        return batch


class TimedCall:
    """Stands for one callable and otherwise is it: attributes and class are those of what it calls.

    When its fetch is over it calls straight through.
    """

    def __init__(self, function: Any, name: str, clock: BatchClock) -> None:
        self.__dict__.update(_function=function, _name=name, _clock=clock)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._clock.is_over:
            return self._function(*args, **kwargs)
        return self._clock.run(self._name, self._function, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_function"], name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.__dict__["_function"])


class _Composed:
    """Stands for a Compose while it runs: its transforms are timed, all else is its own."""

    def __init__(self, composed: Any, clock: BatchClock) -> None:
        self._composed = composed
        self.transforms = [TimedCall(each, name_of(each), clock) for each in composed.transforms]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._composed, name)


def _stand_in(composed: Any, clock: BatchClock) -> Any:
    """The Compose with its transforms timed; the Compose itself if reading its transforms raises."""
    try:
        return _Composed(composed, clock)
    except Exception:  # a user's class
        return composed


def name_of(transform: Any) -> str:
    """What a reader calls a transform: its class, or a function's own name.

    >>> name_of(torchvision.transforms.ToTensor()), name_of(normalise)
    ('ToTensor', 'normalise')
    """
    try:
        function = getattr(transform, "func", transform)  # functools.partial
        return str(getattr(function, "__name__", None) or type(function).__name__)
    except Exception:  # a user's __getattr__
        return type(transform).__name__


def _watch_stages(fetcher: Any, clock: BatchClock, sizes: list[int], undo: ExitStack) -> None:
    """Time collating, and each transform by itself."""
    _watch_collating(fetcher, clock, sizes, undo)
    _watch_composed(clock, undo)
    for owner, name, transform in single_transforms(fetcher.dataset):
        undo.enter_context(_replaced(vars(owner), name, TimedCall(transform, name_of(transform), clock)))


def _watch_collating(fetcher: Any, clock: BatchClock, sizes: list[int], undo: ExitStack) -> None:
    collate = fetcher.collate_fn

    def collating(samples: Any) -> Any:
        if fetcher.auto_collation:
            with suppress(Exception):  # a user's list class may raise
                sizes[0] = len(samples)
        return clock.run(COLLATING, collate, samples)

    undo.enter_context(_replaced(vars(fetcher), "collate_fn", collating))


def _watch_composed(clock: BatchClock, undo: ExitStack) -> None:
    """The transforms in a Compose, wherever it is called from."""
    for module, method in COMPOSED:
        composed = getattr(sys.modules.get(module), "Compose", None)
        if composed is not None:
            undo.enter_context(_timed_compose(composed, method, clock))


def single_transforms(dataset: Any) -> list[tuple[Any, str, Any]]:
    """(owner, attribute, transform) of what a data set, and those it wraps, apply without a Compose.

    >>> single_transforms(Pictures(transform=ToTensor()))[0][1]
    'transform'

    None of an IterableDataset: its generator lives on between fetches, and with it what it took from an attribute.
    """
    from torch.utils.data import IterableDataset

    return [] if isinstance(dataset, IterableDataset) else list(_single_transforms(dataset))


def has_unseen_transforms(dataset: Any) -> bool:
    """Whether transforms of an IterableDataset count as reading, since they are not in a Compose."""
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset) and any(_single_transforms(dataset))


@contextmanager
def _timed_compose(composed: type, method: str, clock: BatchClock) -> Iterator[None]:
    original = vars(composed)[method]
    setattr(composed, method, lambda self, *inputs: original(_stand_in(self, clock), *inputs))
    try:
        yield
    finally:
        setattr(composed, method, original)


@contextmanager
def _replaced(attributes: dict[str, Any], name: str, replacement: Any) -> Iterator[None]:
    original = attributes[name]
    attributes[name] = replacement
    try:
        yield
    finally:
        if attributes.get(name) is replacement:
            attributes[name] = original


def _single_transforms(holder: Any, *, depth: int = 0) -> Iterator[tuple[Any, str, Any]]:
    if depth > DEEPEST or not hasattr(holder, "__dict__"):
        return
    for name, held in list(vars(holder).items()):
        if name in WRAPPED:
            for part in held if isinstance(held, (list, tuple)) else [held]:
                yield from _single_transforms(part, depth=depth + 1)
        elif "transform" in name and callable(held) and not _is_compose(held):
            inner = list(
                _single_transforms(held, depth=depth + 1)
            )  # torchvision's pair: of the sample and of its label
            yield from inner or [(holder, name, held)]


def _is_compose(held: Any) -> bool:
    """Its transforms are timed one by one, through its class."""
    return any(isinstance(held, getattr(sys.modules.get(module), "Compose", ())) for module, _ in COMPOSED)
