"""Checks of loaders and data sets: what a step waits for, and what is read again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from accel.labs.exercises.of_samples import compared, unlike_batch, unlike_order
from accel.labs.exercises.seen import Seen, measured, wrong_work
from accel.units import percent

STEP = 1.2  # of what the first loader takes for a batch, so that without workers 45 % of a step are waiting
CALIBRATED, WATCHED = 4, 12  # batches
PHOTOS, BATCH, EPOCHS = 24, 4, 3
KEEP = "Keep what the source gave, and look there first."
OVER = object()
KEEP_EARLIER = (
    "Your data set keeps augmented pictures. Keep what comes before `augment`, and call that each time."
)
KEEP_BEFORE = (
    "What a worker keeps is lost with it at the end of its epoch, and no other process sees it. "
    "Read all samples before there are workers: when the data set is built."
)


def waiting_below(given: object, faster: object, *, most: float) -> Seen:
    """Whether a device that trains on the second loader waits little, and is shown what the first would show it.

    The device is a stand-in: it sleeps for 1.2 times what the first loader takes to make a batch by itself.

    >>> waiting_below(slow, DataLoader(photos, 32, shuffle=True, num_workers=2), most=0.1).passed
    True
    """
    asked = f"At most {percent(most, 0)}, with the same samples in batches of the same size."
    for loader in (given, faster):
        if (
            not isinstance(loader, DataLoader)
            or isinstance(loader.dataset, IterableDataset)
            or not len(loader)
        ):
            raise wrong_work(
                "a loader",
                f"one of both is of type {type(loader).__name__}",
                "Pass two DataLoaders of a data set that has a length: the one given, then yours.",
            )
    assert isinstance(given, DataLoader)
    assert isinstance(faster, DataLoader)
    data = given.dataset, faster.dataset
    if unlike := unlike_order(given, faster) or compared(*data) or unlike_batch(given, faster):
        return Seen(False, unlike.saw, asked, {}, unlike.hint)
    step_s = STEP * _batch_s(given)
    passed, share, times = measured(lambda: _waiting(faster, step_s), at_most=most)
    figures: dict[str, Any] = {"waiting": share, "step_ms": step_s * 1e3, "measured": float(times)}
    saw = f"Waiting for data takes {percent(share, 0)} of a step that computes for {step_s * 1e3:.0f} ms."
    return Seen(passed, saw, asked, figures, _why_waiting(faster))


def _batch_s(loader: DataLoader[Any]) -> float:
    """What a batch takes in this process."""
    alone = DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn)
    return median(wait for wait, _ in zip(_waits(alone, 0.0), range(CALIBRATED), strict=False))


def _waiting(loader: DataLoader[Any], step_s: float) -> float:
    """The share of a step that is waiting, without the first batch of an epoch, for which nothing could be ready."""
    waits = [wait for wait, _ in zip(_waits(loader, step_s), range(WATCHED), strict=False)]
    return sum(waits) / (sum(waits) + step_s * len(waits))


def _waits(loader: DataLoader[Any], step_s: float) -> Iterator[float]:
    """Seconds of waiting for batch after batch, epoch after epoch, each followed by a step on the stand-in."""
    while True:
        batches, number = iter(loader), 0
        while True:
            asked = time.perf_counter()
            if next(batches, OVER) is OVER:
                break
            got = time.perf_counter()
            if number or len(loader) == 1:
                yield got - asked
            number += 1
            time.sleep(step_s)
        if not number:
            raise wrong_work(
                "a loader", "it gave no batch", "Pass a loader that gives the samples of its data set."
            )


def _why_waiting(loader: DataLoader[Any]) -> str:
    if not loader.num_workers:
        return "This loader makes each batch while the device waits. Other processes can make the next ones while it computes."
    return "The workers do not keep up: compare the time of a batch, divided by the workers, with that of a step."


class _Counted(Dataset[tuple[torch.Tensor, int]]):
    """Pictures that take note of being read, in memory that all processes share."""

    def __init__(self) -> None:
        self.reads = torch.zeros(PHOTOS, dtype=torch.long).share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return PHOTOS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < PHOTOS:
            raise IndexError(index)
        self.reads[index] += 1
        return torch.full((4,), float(index)), index % 10


def _shifted(picture: torch.Tensor) -> torch.Tensor:
    return picture + torch.rand(1)


def remembers(remembering: object, *, workers: int = 2) -> Seen:
    """Whether a class (source, augment) → data set reads each sample once, over epochs and workers, and augments it anew.

    >>> remembers(Remembering).passed
    True
    """
    asked = f"Each of {PHOTOS} samples read once in {EPOCHS} epochs, and augmented anew each time."
    if not callable(remembering):
        raise wrong_work(
            "a data set", "this cannot be called", "Pass the class itself, without building one of it."
        )
    with torch.random.fork_rng(devices=[]):
        samples = remembering(_Counted(), _shifted)
        if not hasattr(samples, "__len__") or len(samples) != PHOTOS:
            saw = "Your data set has another length than its source."
            return Seen(False, saw, asked, {}, "Give len() of the source.")
        if wrong := _wrong_sample(samples):
            return Seen(False, wrong, asked, {}, "A sample is (augment(picture), label), for every index.")
        if len({samples[0][0][0].item() for _ in range(4)}) == 1:
            saw = "The same sample comes out alike each time: it is augmented no more."
            return Seen(False, saw, asked, {}, KEEP_EARLIER)
        alone, with_workers = (_readings(remembering, each) for each in (0, workers))
    for reads, where, hint in ((alone, "", KEEP), (with_workers, f" with {workers} workers", KEEP_BEFORE)):
        if not reads:
            saw = f"Over {EPOCHS} epochs{where}, the given source was not read at all."
            return Seen(
                False, saw, asked, {"reads": 0.0}, "Read the source that you were given, not a copy of it."
            )
        if reads > PHOTOS:
            saw = f"Over {EPOCHS} epochs{where}, {PHOTOS} samples were read {reads} times."
            return Seen(False, saw, asked, {"reads": float(reads), "samples": float(PHOTOS)}, hint)
    saw = (
        f"Over {EPOCHS} epochs, {PHOTOS} samples were read {with_workers} times, with {workers} workers too."
    )
    return Seen(True, saw, asked, {"reads": float(with_workers), "samples": float(PHOTOS)})


def _readings(remembering: Callable[..., Any], workers: int) -> int:
    """How often a source is read when a new data set of that class serves some epochs."""
    source = _Counted()
    how: dict[str, Any] = {"num_workers": workers} if workers else {}
    if workers and "fork" in torch.multiprocessing.get_all_start_methods():
        how["multiprocessing_context"] = "fork"  # a class of a notebook is known to no fresh process
    loader = DataLoader(remembering(source, _shifted), BATCH, shuffle=True, **how)
    for _ in range(EPOCHS):
        for _ in loader:
            pass
    return int(source.reads.sum())


def _wrong_sample(samples: Any) -> str:
    """What is wrong with one of its samples, the first epoch; nothing otherwise."""
    for index in range(PHOTOS):
        try:
            picture, label = samples[index]
        except Exception as error:  # what the student's class does is the answer
            return f"Sample {index} cannot be had: {type(error).__name__}: {error}"
        if not isinstance(picture, torch.Tensor) or not 0 <= float(picture[0]) - index < 1:
            return f"Sample {index} has another picture than the source's, augmented."
        if label != index % 10:
            return f"Sample {index} has the label {label}, and the source says {index % 10}."
    return ""
