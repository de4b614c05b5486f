"""Questions about the student's own last profile: the figures are theirs, the reasoning is the chapter's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.labs.quiz.questions import Near, Numeric, Option, Own, Single
from accel.profiling.contractions import CONTRACTIONS
from accel.units import percent

if TYPE_CHECKING:
    from accel.profiling.profile import Profile
    from accel.workload.workload import Workload

MOST_OPTIONS = 4


@dataclass(frozen=True)
class Measured:
    """What the student measured last: the profile, and the workload that it left."""

    profile: Profile
    workload: Workload

    def share(self, phase: str) -> float:
        """The part of a step that a phase takes, 0 to 1."""
        return sum(each.share for each in self.profile.phases if each.name == phase)


class NotInThisProfile(Exception):
    """The last profile cannot answer; the message says what would."""


def made_from(question: Own, measured: Measured) -> Single | Numeric:
    """The question with the student's figures; raises NotInThisProfile."""
    made = ABOUT[question.about](measured)
    values = {name: getattr(made, name) for name in made.__struct_fields__}
    return type(made)(**values | {"id": question.id, "lesson": question.lesson})


def _single(ask: str, shares: list[tuple[str, float]], of: str) -> Single:
    """Which of these takes most; each option says its share."""
    ranked = sorted(shares, key=lambda each: -each[1])[:MOST_OPTIONS]
    if len(ranked) < 3:
        raise NotInThisProfile("Profile a cell that trains: your last profile has too little to choose from.")
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
        raise NotInThisProfile("Profile a cell that trains: your last profile has no steps to reckon with.")
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
    shares = [(f"`{row.op}`", row.share) for row in measured.profile.ops]
    return _single(
        "In your last profile, which operation took most time of its own?",
        shares,
        "the time of all operations",
    )


def waiting_share(measured: Measured) -> Numeric:
    """How much of a step waits for data."""
    share = 100 * measured.share("data")
    return _numeric(
        "In your last profile, how many percent of a step did the training wait for data?",
        share,
        "The phase *data* is the time between asking the loader for a batch and having it.",
        "Look for the phase *data* in the report: `profile.phases`.",
        unit="%",
        tolerance=1.0,
    )


def _best_case(measured: Measured, phase: str, words: str) -> Numeric:
    share = measured.share(phase)
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
    rate = samples * 1000 / step_ms
    return _numeric(
        f"In your last profile a step took {step_ms:.3g} ms and trained on {samples} samples. How many samples a second is that?",
        rate,
        f"{samples} samples in {step_ms:.3g} ms are {samples} / {step_ms / 1000:.3g} s.",
        "Divide the samples of a step by its time in seconds.",
        unit="samples a second",
        tolerance=0.02 * rate,
        near=(
            Near(1000 / step_ms, "Those are steps a second; a step trains on more than one sample."),
            Near(samples / step_ms, "Those are samples a millisecond."),
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
        "How many parameters has the model of your last profile?",
        count,
        "Every weight and every bias counts: `sum(p.numel() for p in model.parameters())`.",
        "Add up `p.numel()` over `model.parameters()`.",
        tolerance=0.005 * count,
    )


def steps_per_epoch_if_doubled(measured: Measured) -> Numeric:
    """What the batch size does to the number of updates."""
    loader: Any = next(iter(measured.workload.objects().loaders.values()), None)
    size, dataset = getattr(loader, "batch_size", None), getattr(loader, "dataset", None)
    if not size or not isinstance(dataset, Sized):
        raise NotInThisProfile(
            "Profile a cell whose DataLoader has a batch size and a data set of known length."
        )
    samples, drops = len(dataset), bool(loader.drop_last)
    steps = samples // (2 * size) if drops else math.ceil(samples / (2 * size))
    return _numeric(
        f"Your loader has {samples:,} samples and a batch size of {size}. "
        "How many steps has an epoch if you double the batch size?",
        steps,
        f"{samples:,} / {2 * size} = {samples / (2 * size):.2f}; "
        f"the last, smaller batch is {'dropped' if drops else 'a step too'}.",
        "Divide the samples by the new batch size. What becomes of the rest?",
        unit="steps",
        tolerance=0,
        near=(Near(math.ceil(samples / size), "That is the number with the batch size that you have."),),
    )


def matrix_share(measured: Measured) -> Numeric:
    """What lower precision can speed up at most."""
    rows = measured.profile.ops
    share = 100 * sum(row.share for row in rows if row.op in CONTRACTIONS)
    if not rows:
        raise NotInThisProfile("Profile a cell that trains: your last profile has no operations.")
    return _numeric(
        "In your last profile, how many percent of the time of all operations went into matrix products and "
        "convolutions, forward and backward?",
        share,
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
