"""Every step of the run as a strip of bars: which were left out as warm-up, profiled or unusually slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import AMBER, BLUE, PINK, VIOLET, Markup, columns, div, heading, note
from accel.units import milliseconds
from accel.views.profile.section import Section, block_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.profiling.profile import Profile
    from accel.profiling.step_timing import OneStep

SHOWN = 80
LEAST = 3  # of fewer steps the headline says enough
HEIGHT_PX = 44
COLOURS = {"w": AMBER, "p": VIOLET, "s": PINK, "·": BLUE}
WORDS = {"w": "warm-up", "p": "under torch.profiler", "s": "unusually slow", "·": "timed"}


def step_sign(step: OneStep) -> str:
    """One letter for what a step was: "w" warm-up, "p" profiled, "s" unusually slow, "·" one of those that are timed."""
    if step.is_warm_up:
        return "w"
    if step.is_profiled:
        return "p"
    return "s" if step.is_outlier else "·"


def _text(profile: Profile) -> Iterator[str]:
    steps = profile.timing.each_step[:SHOWN]
    if len(steps) < LEAST:
        return
    top = _top(steps)
    yield _title(profile)
    yield "  " + "".join(block_of(step.ms / top) for step in steps)
    yield "  " + "".join(map(step_sign, steps))
    yield "  " + _legend(steps)


def _html(profile: Profile) -> Iterator[object]:
    steps = profile.timing.each_step[:SHOWN]
    if len(steps) < LEAST:
        return
    top = _top(steps)
    yield heading(_title(profile))
    yield columns(_bar(number, step, top) for number, step in enumerate(steps, 1))
    yield note(_legend(steps))


def _title(profile: Profile) -> str:
    timing = profile.timing
    count, every = len(timing.each_step), "batches" if timing.unit == "batch" else "steps"
    return f"The first {SHOWN} of the {every}" if count > SHOWN else f"All {count} {every}"


def _top(steps: tuple[OneStep, ...]) -> float:
    """The full height: a first step that compiled for seconds must not flatten all others."""
    in_order = sorted(step.ms for step in steps)
    return min(in_order[-1], 4 * in_order[len(in_order) // 2]) or 1.0


def _bar(number: int, step: OneStep, top: float) -> Markup:
    sign = step_sign(step)
    height = max(1, round(HEIGHT_PX * min(step.ms / top, 1.0)))
    tooltip = f"{number}: {milliseconds(step.ms)}, {WORDS[sign]}"
    bar = div(f"height:{height}px;background-color:{COLOURS[sign]};opacity:.85")
    style = "flex:1 1 0;max-width:14px;margin-right:1px;text-align:center;font-size:9px"
    return div(style, bar, sign, title=tooltip)


def _legend(steps: tuple[OneStep, ...]) -> str:
    """What the letters mean, and where the bars are cut off."""
    signs = [step_sign(step) for step in steps]
    meanings = [f"{sign} {words}: {signs.count(sign)}" for sign, words in WORDS.items() if sign in signs]
    top, longest = _top(steps), max(step.ms for step in steps)
    cut = f"Bars end at {milliseconds(top)}; the longest is {milliseconds(longest)}." if longest > top else ""
    return f"{', '.join(meanings)}. {cut}".rstrip()


STEPS = Section("steps", _text, _html)
