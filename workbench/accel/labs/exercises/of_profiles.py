"""Checks of profiles: the share of a phase in two of them, and how often a training updates its parameters."""

from __future__ import annotations

import math

from accel.labs.exercises.seen import Figure, Seen, function_of, is_same, outcome, wrong_work
from accel.profiling.profile import Profile
from accel.units import percent

SURE = 0.9  # of the threshold: a profile is taken once, and its shares move by some per cent
CASES = (
    (50_000, 128, 10, False), (50_000, 128, 10, True), (60_000, 64, 1, False), (64, 64, 3, False), (10, 64, 2, False),
    (10, 64, 2, True),
)  # fmt: skip


def smaller_share(before: object, after: object, *, phase: str, at_most: float) -> Seen:
    """Whether a phase takes at most this part of the share of a step that it had.

    >>> smaller_share(profile, my_profile, phase="optimizer", at_most=0.5).passed
    True
    """
    if not isinstance(before, Profile) or not isinstance(after, Profile):
        do = "Pass the first profile, then yours: %%accel profile -o changed."
        raise wrong_work("two profiles", "one of them is none", do)
    asked = f"At most {percent(at_most)} of the share that the {phase} had."
    shares = [sum(each.share for each in profile.phases if each.name == phase) for profile in (before, after)]
    saw = f"The {phase} took {percent(shares[0])} of a step, and takes {percent(shares[1])} now."
    figures: dict[str, Figure] = {"before": shares[0], "after": shares[1]}
    if not shares[0]:
        return Seen(
            False, f"The first profile has no {phase}.", asked, figures, "Profile a cell that trains."
        )
    if not shares[1]:
        return Seen(
            False,
            saw,
            asked,
            figures,
            f"The {phase} has to stay in the step: a training without it learns nothing.",
        )
    ratio = shares[1] / shares[0]
    if at_most * SURE < ratio <= at_most / SURE:
        return Seen(
            False,
            saw,
            asked,
            figures,
            "That is too near to call with one profile. Go further in the same direction.",
        )
    return Seen(ratio <= at_most, saw, asked, figures)


def updates_of_training(function: object) -> Seen:
    """Whether function(samples, batch, epochs, drop_last) counts the updates of a training.

    >>> updates_of_training(lambda samples, batch, epochs, drop_last: samples * epochs // batch).passed
    False
    """
    work = function_of(function)
    asked = "The number of updates, with and without the last, smaller batch."
    for samples, batch, epochs, drop_last in CASES:
        right = epochs * (samples // batch if drop_last else math.ceil(samples / batch))
        given = outcome(work, samples, batch, epochs, drop_last)
        if not is_same(given, right):
            kept = "dropped" if drop_last else "kept"
            saw = f"For {samples:,} samples, batches of {batch}, {epochs} epochs, the last batch {kept}: {given!r}."
            hint = "Count the batches of one epoch first, as a whole number, then multiply."
            if is_same(given, epochs * math.ceil(samples / batch)):
                hint = "With drop_last the smaller batch at the end of each epoch is not used."
            return Seen(False, saw, asked, {}, hint)
    return Seen(True, f"Right for {len(CASES)} trainings.", asked, {"trainings": float(len(CASES))})
