"""What was wrong with a trace, counted, and in sentences for the report's notes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

WORDS = {
    "unreadable": ("place that is no JSON was skipped", "places that are no JSON were skipped"),
    "not_an_event": ("entry that is no event was skipped", "entries that are no events were skipped"),
    "no_duration": ("event without a duration was left out", "events without a duration were left out"),
    "bad_duration": (
        "event with a duration that is negative, no number or longer than a day was left out",
        "events with a duration that is negative, no number or longer than a day were left out",
    ),
    "bad_time": (
        "event at a time that cannot be (no number, or more than a day from the others) was left out",
        "events at a time that cannot be (no number, or more than a day from the others) were left out",
    ),
    "outlived": (
        "event outlived the one it began in, and was cut at its end",
        "events outlived the one they began in, and were cut at its end",
    ),
    "odd_phase": (
        "event of a kind that torch does not write was left out",
        "events of a kind that torch does not write were left out",
    ),
    "odd_category": (
        "event of a category that this version does not know was left out",
        "events of categories that this version does not know were left out",
    ),
}

LOSSES = frozenset(WORDS) - {"outlived", "odd_category"}


@dataclass
class Damage:
    """Counts by kind, and what happened to the file as a whole.

    >>> damage = Damage(); damage.counts["bad_duration"] += 2; damage.sentences
    ('2 events with a duration that is negative, no number or longer than a day were left out.',)
    """

    counts: Counter[str] = field(default_factory=Counter)
    whole_file: list[str] = field(default_factory=list)

    @property
    def is_loss(self) -> bool:
        """Whether events of torch were lost, or may have been; overlaps of a coarse clock are none."""
        return bool(self.whole_file) or any(self.counts[kind] for kind in LOSSES)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The gravest first: the file, then the events."""
        counted = (f"{count:,} {WORDS[kind][count > 1]}." for kind in WORDS if (count := self.counts[kind]))
        return (*self.whole_file, *counted)
