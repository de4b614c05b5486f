"""Questions about the student's own last profile: the figures are theirs, the reasoning is the chapter's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from accel.labs.quiz.questions import Near, Numeric, Option, Own, Single
from accel.profiling.contractions import CONTRACTIONS
from accel.profiling.op_table import PYTHON
from accel.units import milliseconds, percent

if TYPE_CHECKING:
    from accel.profiling.profile import Profile
    from accel.workbench import Workbench
    from accel.workload.workload import Workload

MOST_OPTIONS = 4


@dataclass(frozen=True)
class Measured:
    """The training that the student profiled last: the profile, and the workload that it left."""

    profile: Profile
    workload: Workload

    def share(self, phase: str) -> float:
        """The part of a step that a phase takes, 0 to 1."""
        return sum(each.share for each in self.profile.phases if each.name == phase)

    def shares_of_operations(self) -> tuple[str, dict[str, float]]:
        """What the shares are of, in words, and the part that each operation takes: on a GPU of the time of its kernels."""
        rows = self.profile.ops
        on_gpu = any(row.device_ms for row in rows)
        times = {row.op: row.device_ms if on_gpu else row.self_ms for row in rows}
        whole = sum(times.values()) or 1.0
        of = "the time of the GPU's kernels" if on_gpu else "the time of all operations and of Python"
        return of, {op: ms / whole for op, ms in times.items()}


def last_measured(workbench: Callable[[], Workbench]) -> Callable[[], Measured | None]:
    """What was profiled last in a notebook, looked up when a question is shown."""

    def look() -> Measured | None:
        profile, workload = workbench().profile_of_workload, workbench().workload
        return Measured(profile, workload) if profile is not None and workload is not None else None

    return look


class NotInThisProfile(Exception):
    """The last profile cannot answer; the message says what would."""


def made_from(question: Own, measured: Measured) -> Single | Numeric:
    """The question with the student's figures; raises NotInThisProfile."""
    return msgspec.structs.replace(ABOUT[question.about](measured), id=question.id, lesson=question.lesson)


def _single(ask: str, shares: list[tuple[str, float]], of: str) -> Single:
    """Which of these takes most; each option says its share."""
    ranked = sorted(shares, key=lambda each: -each[1])[:MOST_OPTIONS]
    if len(ranked) < 3:
        raise NotInThisProfile("Profile a cell that trains: your last profile has too little to choose from.")
    if percent(ranked[0][1], 0) == percent(ranked[1][1], 0):
        raise NotInThisProfile(f"In your last profile, {ranked[0][0]} and {ranked[1][0]} took the same time.")
    options = tuple(
        Option(name, f"It takes {percent(share, 0)} of {of}.", correct=place == 0)
        for place, (name, share) in enumerate(ranked)
    )
    return Single(id="", lesson="", ask=ask, options=options)


def _numeric(
    ask: str,
    answer: float,
    why: str,
    otherwise: str,
    *,
    unit: str = "",
    tolerance: float,
    near: tuple[Near, ...] = (),
) -> Numeric:
    if not math.isfinite(answer):
        raise NotInThisProfile("Profile a cell that trains: your last profile has no steps to compute from.")
    kept = tuple(each for each in near if abs(each.value - answer) > tolerance)
    return Numeric(
        id="", lesson="", ask=ask, answer=answer, why=why, otherwise=otherwise, unit=unit, tolerance=tolerance, near=kept
    )  # fmt: skip


def largest_phase(measured: Measured) -> Single:
    """Which phase of a step takes most of it."""
    phases = [(each.name, each.share) for each in measured.profile.phases if not each.is_gap]
    return _single("In your last profile, which phase of a step took most time?", phases, "your step")


def costliest_operation(measured: Measured) -> Single:
    """Which operation takes most time of its own."""
    of, shares = measured.shares_of_operations()
    operations = [(f"`{op}`", share) for op, share in shares.items() if op != PYTHON]
    return _single("In your last profile, which operation took most time of its own?", operations, of)


def waiting_share(measured: Measured) -> Numeric:
    """How much of a step waits for data."""
    share = 100 * measured.share("data")
    return _numeric(
        "In your last profile, for what percentage of a step did the training wait for data?",
        share,
        "The phase *data* is the time between asking the loader for a batch and having it.",
        "Look for the phase *data* in the report: `profile.phases`.",
        unit="%",
        tolerance=1.0,
    )


def _best_case(measured: Measured, phase: str, words: str) -> Numeric:
    share = round(measured.share(phase), 2)  # as it is asked
    answer = 1 / (1 - share) if share < 1 else math.inf
    return _numeric(
        f"In your last profile, {words} took {percent(share, 0)} of a step. How many times as fast would a step be if that time "
        "vanished and all else stayed?",
        answer,
        f"The rest takes {percent(1 - share, 0)} of the time, so a step is 1 / {1 - share:.2f} "
        f"= {answer:.2f} times as fast: Amdahl's law.",
        "What is left after that time is gone? Divide the whole step by it.",
        unit="times",
        tolerance=max(0.02, 0.02 * answer),
        near=(
            Near(
                1 + share,
                "Adding the share to 1 is close for small shares only: divide by what is left instead.",
            ),
            Near(
                1 - share,
                "That is how long a step takes then, as a part of before. How many times as fast is it?",
            ),
        ),
    )


def best_case_without_waiting(measured: Measured) -> Numeric:
    """What is the most that a better loader can give."""
    return _best_case(measured, "data", "waiting for data")


def best_case_without_optimizer(measured: Measured) -> Numeric:
    """What is the most that a faster optimizer can give."""
    return _best_case(measured, "optimizer", "the optimizer")


def samples_per_second(measured: Measured) -> Numeric:
    """How step time and batch size make the rate."""
    samples, step_ms = measured.workload.samples_per_step, measured.profile.step_ms
    if not samples:
        raise NotInThisProfile(
            "Profile a cell whose batches come from a DataLoader: samples could not be counted."
        )
    rate, of_all = samples * 1000 / step_ms, measured.profile.samples_per_s or 0.0
    mean = "That is the profile's figure, from the time of all steps. Here every step takes as long as the median step."
    shown = [Near(of_all, mean)] if abs(of_all - rate) > 0.02 * rate else []
    return _numeric(
        f"In your last profile the median step took {milliseconds(step_ms)} and trained on {samples} samples. "
        "If every step took that long, how many samples a second would that be?",
        rate,
        f"{samples} samples in {milliseconds(step_ms)} are {samples} / {step_ms / 1000:.4g} s.",
        "Divide the samples of a step by its time in seconds.",
        unit="samples a second",
        tolerance=0.02 * rate,
        near=(
            Near(1000 / step_ms, "Those are steps a second; a step trains on more than one sample."),
            Near(samples / step_ms, "Those are samples a millisecond."),
            *shown,
        ),
    )


def backward_over_forward(measured: Measured) -> Numeric:
    """How long backward takes next to forward."""
    forward, backward = measured.share("forward"), measured.share("backward")
    if not forward or not backward:
        raise NotInThisProfile("Profile a cell with a forward and a backward pass.")
    ratio = backward / forward
    return _numeric(
        "In your last profile, how many times as long as the forward pass did the backward pass take?",
        ratio,
        f"Backward took {percent(backward, 0)} and forward {percent(forward, 0)} of a step. Backward computes gradients of "
        "inputs and of parameters: about twice the arithmetic of forward, unless memory or overhead decides.",
        "Divide the share of *backward* by that of *forward*.",
        unit="times",
        tolerance=max(0.05, 0.05 * ratio),
        near=(Near(1 / ratio, "That is forward over backward."),),
    )


def parameters(measured: Measured) -> Numeric:
    """How many numbers the model learns."""
    models = measured.workload.objects().models
    if not models:
        raise NotInThisProfile("Profile a cell again: the model of your last profile is gone.")
    count = sum(parameter.numel() for model in models.values() for parameter in model.parameters())
    return _numeric(
        "How many parameters does the model of your last profile have?",
        count,
        "Every weight and every bias counts: `sum(p.numel() for p in model.parameters())`.",
        "Add up `p.numel()` over `model.parameters()`.",
        tolerance=0.005 * count,
    )


def steps_per_epoch_if_doubled(measured: Measured) -> Numeric:
    """What the batch size does to the number of updates."""
    loader: Any = next(iter(measured.workload.objects().loaders.values()), None)
    size, sampler = getattr(loader, "batch_size", None), getattr(loader, "sampler", None)
    if not size or not isinstance(sampler, Sized) or not hasattr(loader, "drop_last"):
        raise NotInThisProfile(
            "Profile a cell whose DataLoader has a batch size and a known number of samples."
        )
    samples, whole = len(sampler), math.floor if loader.drop_last else math.ceil
    steps = whole(samples / (2 * size))
    return _numeric(
        f"Your loader has {samples:,} samples and a batch size of {size}. "
        "How many steps does an epoch have if you double the batch size?",
        steps,
        f"{samples:,} / {2 * size} = {samples / (2 * size):.2f}; "
        f"the last, smaller batch is {'dropped' if loader.drop_last else 'a step too'}.",
        "Divide the samples by the new batch size. What becomes of the rest?",
        unit="steps",
        tolerance=0,
        near=(Near(whole(samples / size), "That is the number with the batch size that you have."),),
    )


def matrix_share(measured: Measured) -> Numeric:
    """What lower precision can speed up at most."""
    of, shares = measured.shares_of_operations()
    if not shares:
        raise NotInThisProfile("Profile a cell that trains: your last profile has no operations.")
    return _numeric(
        f"In your last profile, what percentage of {of} went into matrix products and convolutions, forward and backward?",
        100 * sum(share for op, share in shares.items() if op in CONTRACTIONS),
        "These are the operations that bf16 and fp16 speed up on hardware that has units for them; the rest stays as it is.",
        "Add up the rows of `profile.ops` for `addmm`, `mm` and the convolutions.",
        unit="%",
        tolerance=3.0,
    )


ABOUT: dict[str, Callable[[Measured], Single | Numeric]] = {
    each.__name__: each
    for each in (
        largest_phase, waiting_share, samples_per_second, best_case_without_waiting, best_case_without_optimizer,
        costliest_operation, backward_over_forward, parameters, steps_per_epoch_if_doubled, matrix_share,
    )
}  # fmt: skip
