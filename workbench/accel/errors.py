"""Errors a user can act on: what was asked, why it cannot be, what to do.

AccelError
├── UnknownName        a word that is not in the list; the nearest right one is suggested
├── NotApplicable      an acceleration that cannot work here, with every reason
├── NotShippable       a workload that cannot be copied into a worker
└── WorkerError        a worker raised, was killed, or hung; carries its traceback
    ├── RankError      the same of one rank of several: the one that caused it
    └── OutOfMemory    it had too little memory
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from accel.shown_text import one_line, shown

LONGEST_ASKED = 200
Part = TypeVar("Part")
Other = TypeVar("Other")


class AccelError(Exception):
    """What you asked for, why it cannot be, and what to do.

    Args:
        asked: What was asked for.
        because: Why it cannot be.
        do: What to do.

    Examples:
        >>> raise AccelError("%accel keep", because="nothing has been tried yet", do="Run %accel try first.")
        Traceback (most recent call last):
        accel.errors.AccelError: %accel keep: nothing has been tried yet. Run %accel try first.
    """

    def __init__(self, asked: str, *, because: str, do: str) -> None:
        asked, because, do = one_line(asked, LONGEST_ASKED), shown(because), shown(do)
        super().__init__(
            f"{asked}: {because}. {do}" if because[-1:] not in ".!?" else f"{asked}: {because} {do}"
        )
        self.asked, self.because, self.do = asked, because, do

    def _render_traceback_(self) -> list[str]:
        """Keep a notebook's output to the three parts; our own frames help no reader."""
        return [f"{type(self).__name__}: {self}"]


class UnknownName(AccelError):
    """A word that is not in the list of right ones; names the nearest, or what serves `instead`.

    Examples:
        >>> raise UnknownName("acceleration", "chanels_last", ["channels_last", "autocast"])
        Traceback (most recent call last):
        accel.errors.UnknownName: acceleration 'chanels_last': there is no acceleration of that name.
            Did you mean 'channels_last'? Known: autocast, channels_last.
    """

    def __init__(self, kind: str, given: object, known: Iterable[str], *, instead: str = "") -> None:
        given, known = str(given), sorted(known)
        near = difflib.get_close_matches(given[:LONGEST_ASKED], known, n=1, cutoff=0.5)
        suggestion = f"Did you mean {near[0]!r}? " if near else ""
        super().__init__(
            f"{kind} {given!r}", because=f"there is no {kind} of that name",
            do=instead or (f"{suggestion}Known: {', '.join(known)}." if known else "There are none."),
        )  # fmt: skip
        self.given, self.known = given, known


@dataclass(frozen=True)
class Reason:
    """Why something cannot be, and what to do; two sentences where it is shown.

    >>> str(Reason("optimizer is fused already", "Nothing needs to be done."))
    'optimizer is fused already. Nothing needs to be done.'
    """

    because: str
    do: str
    environment: str = ""
    """What `%accel env create` would have to make first, where that is the reason."""

    def __str__(self) -> str:
        return f"{self.because}. {self.do}"


class LeftOut:
    """Collects a sentence for each part of a report that failed, so that the user still gets the other parts.

    >>> left_out = LeftOut()
    >>> left_out.unless("The kernels", lambda: 1 / 0, otherwise=())
    ()
    >>> left_out.said
    ['The kernels are left out (ZeroDivisionError: division by zero).']
    """

    def __init__(self) -> None:
        self.said: list[str] = []

    def unless(self, parts: str, read: Callable[[], Part], otherwise: Other) -> Part | Other:
        """Return `read()`; if it raises, note that `parts` (a plural noun) are left out, and return `otherwise`."""
        try:
            return read()
        except Exception as error:  # `read` uses the user's own objects, which may raise anything
            self.said.append(f"{parts} are left out ({in_short(error)}).")
            return otherwise


def in_short(error: BaseException) -> str:
    """An exception in one line, whatever its text is.

    >>> in_short(KeyError("a"))
    "KeyError: 'a'"
    """
    text = first_line(error)
    return f"{type(error).__name__}: {text}" if text != type(error).__name__ else text


def in_words(reasons: Iterable[Reason]) -> str:
    """One after the other, as text.

    >>> in_words([Reason("model has no convolution", "Leave it off.")])
    'model has no convolution. Leave it off.'
    """
    return " ".join(map(str, reasons))


def of_each(reasons: Mapping[str, Sequence[Reason]]) -> list[Reason]:
    """The reasons of several in one row, with its name before the first of each.

    >>> print(*of_each({"autocast": [Reason("model has no float32 weights", "Leave it off.")]}))
    autocast: model has no float32 weights. Leave it off.
    """
    return [
        reason
        for name, own in reasons.items()
        for reason in (replace(own[0], because=f"{name}: {own[0].because}"), *own[1:])
    ]


class NotApplicable(AccelError):
    """An acceleration cannot work on this workload or machine; `reasons` says why, and what to do.

    Examples:
        >>> raise NotApplicable("pin_memory", [Reason("There is no GPU that data are copied to", "Leave it out.")])
        Traceback (most recent call last):
        accel.errors.NotApplicable: pin_memory: not applicable here. There is no GPU that data are copied to. Leave it out.
    """

    def __init__(self, name: str, reasons: Sequence[Reason]) -> None:
        super().__init__(name, because="not applicable here", do=in_words(reasons))
        self.reasons = list(reasons)


class NotShippable(AccelError):
    """The workload cannot be copied into a worker process."""


class WorkerError(AccelError):
    """A worker raised, was killed or hung. `traceback_text` holds the worker's own traceback, with the user's lines."""

    def __init__(self, asked: str, *, because: str, do: str, traceback_text: str = "") -> None:
        super().__init__(asked, because=because, do=do)
        self.traceback_text = shown(traceback_text)

    def __str__(self) -> str:
        return f"{self.traceback_text.rstrip()}\n{super().__str__()}".lstrip("\n")

    def _render_traceback_(self) -> list[str]:
        return [*self.traceback_text.rstrip().splitlines(), f"{type(self).__name__}: {super().__str__()}"]


class OutOfMemory(WorkerError):
    """A worker had too little memory, that of its GPU included."""


class RankError(WorkerError):
    """One rank raised, was killed or hung, and so ended the run of all. `rank` is the one that caused it.

    `has_raised`: its code did, and would again.
    """

    def __init__(
        self,
        rank: int,
        asked: str,
        *,
        because: str,
        do: str,
        traceback_text: str = "",
        has_raised: bool = False,
    ) -> None:
        super().__init__(asked, because=because, do=do, traceback_text=traceback_text)
        self.rank, self.has_raised = rank, has_raised


_LONGEST_TEXT, _LONGEST_LINE = 4_000, 300


def words_of(error: BaseException) -> str:
    """What an error of the user's says, whatever its class does when it is asked: text that can be sent, of bounded length.

    >>> words_of(KeyError("a"))
    "'a'"
    """
    try:
        text = "".join(
            str(error)
        )  # of a plain class: torch's errors of loader workers are texts of their own
    except (Exception, SystemExit) as own:
        return f"(its text cannot be read: __str__ raised {type(own).__name__})"
    return shortened(text)


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, or its class."""
    lines = [line.strip() for line in words_of(error).splitlines() if line.strip()]
    return shortened(lines[0], _LONGEST_LINE).rstrip(".") if lines else type(error).__name__


def shortened(text: str, longest: int = _LONGEST_TEXT) -> str:
    """A text with its middle left out where it is longer; lone surrogates, which no JSON takes, as escapes.

    >>> shortened("abcdefgh", 4)
    'ab … (4 characters left out) … gh'
    """
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} … ({len(text) - 2 * half:,} characters left out) … {text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()
