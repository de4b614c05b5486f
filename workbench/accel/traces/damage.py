"""What was wrong with a trace, counted, and in sentences for the report's notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from accel.units import counted

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
}

LOSSES = frozenset(WORDS) - {"outlived"}
SHOWN_CATEGORIES = 4


@dataclass
class Damage:
    """Counts by kind, and what happened to the file as a whole.

    >>> damage = Damage(); damage.counts["bad_duration"] += 2; damage.sentences
    ('2 events with a duration that is negative, no number or longer than a day were left out.',)
    """

    counts: Counter[str] = field(default_factory=Counter)
    whole_file: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # what was left out though nothing is wrong with it
    odd_categories: Counter[str] = field(default_factory=Counter)  # events that accel cannot read

    @property
    def is_loss(self) -> bool:
        """Whether events of torch were lost, or may have been; overlaps of a coarse clock are none."""
        return bool(self.whole_file) or any(self.counts[kind] for kind in LOSSES)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The gravest first: the file, then the events."""
        said = (f"{count:,} {WORDS[kind][count > 1]}." for kind in WORDS if (count := self.counts[kind]))
        return (*self.whole_file, *said, *self._about_categories(), *self.remarks)

    def _about_categories(self) -> Iterator[str]:
        if odd := self.odd_categories:
            named = [name or "events without a category" for name, _ in odd.most_common(SHOWN_CATEGORIES)]
            more = f" and {len(odd) - SHOWN_CATEGORIES} more" if len(odd) > SHOWN_CATEGORIES else ""
            count = counted(sum(odd.values()), "event")
            yield f"Left out: {count} of categories that accel cannot read ({', '.join(named)}{more})."

    def of_process(self, *, is_first: bool) -> Damage:
        """A copy for one of several processes in a file; what is no loss is reported for the first process only."""
        return Damage(
            self.counts.copy(), list(self.whole_file),
            remarks=self.remarks if is_first else [], odd_categories=self.odd_categories if is_first else Counter(),
        )  # fmt: skip
