"""Errors say what was asked, why it cannot be, and what to do; a wrong word gets the nearest right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.errors import (
    AccelError,
    LeftOut,
    NotApplicable,
    NotShippable,
    Reason,
    UnknownName,
    WorkerError,
    first_line,
    in_short,
    of_each,
    words_of,
)

WORDS = st.text(alphabet="abcdefghij_", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("because", "joined"), [("nothing was tried", "tried. Run"), ("really?", "really? Run")]
)
def test_the_three_parts_read_as_one_text(because: str, joined: str) -> None:
    error = AccelError("%accel keep", because=because, do="Run %accel try.")
    assert str(error).startswith("%accel keep: ")
    assert joined in str(error)
    assert (error.asked, error.because, error.do) == ("%accel keep", because, "Run %accel try.")


def test_a_notebook_shows_one_line_without_our_frames() -> None:
    lines = AccelError("a", because="b", do="C.")._render_traceback_()
    assert lines == ["AccelError: a: b. C."]


def test_the_nearest_name_is_suggested() -> None:
    error = UnknownName("acceleration", "chanels_last", ["autocast", "channels_last"])
    assert "Did you mean 'channels_last'?" in str(error)
    assert "autocast, channels_last" in str(error)


def test_nothing_is_suggested_for_a_word_unlike_all_others() -> None:
    assert "Did you mean" not in str(UnknownName("acceleration", "zzz", ["autocast"]))


def test_a_list_of_names_may_be_empty() -> None:
    assert str(UnknownName("environment", "a", [])).endswith("There are none.")


@given(st.lists(WORDS, min_size=1, max_size=8, unique=True), st.data())
def test_a_known_name_is_its_own_nearest(known: list[str], data: st.DataObject) -> None:
    given_name = data.draw(st.sampled_from(known))
    error = UnknownName("knob", given_name, iter(known))
    assert f"Did you mean {given_name!r}?" in str(error)
    assert error.known == sorted(known)


def test_every_reason_is_in_the_text() -> None:
    reasons = [Reason("No compiler", "Install g++."), Reason("One core", "Get more.")]
    error = NotApplicable("compile_model", reasons)
    assert "Install g++. One core." in str(error)
    assert error.reasons == reasons


def test_the_reasons_of_several_name_each_once() -> None:
    first, second, third = (Reason(word, "Leave it off.") for word in ("one", "two", "three"))
    assert of_each({"a": [first, second], "b": [third]}) == [
        Reason("a: one", "Leave it off."),
        second,
        Reason("b: three", "Leave it off."),
    ]


def test_a_worker_error_shows_the_workers_traceback_first() -> None:
    error = WorkerError(
        "try", because="a worker raised", do="Mend the cell.", traceback_text="Traceback\n  line 3\n"
    )
    assert error._render_traceback_() == [
        "Traceback",
        "  line 3",
        "WorkerError: try: a worker raised. Mend the cell.",
    ]


@pytest.mark.parametrize("kind", [UnknownName, NotApplicable, NotShippable, WorkerError])
def test_one_except_clause_catches_all(kind: type[Exception]) -> None:
    assert issubclass(kind, AccelError)


class Hostile(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise LookupError("no text")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a\nb"), "a\nb"),
        (ValueError(), ""),
        (Hostile(), "(its text cannot be read: __str__ raised LookupError)"),
        (ValueError("lone \ud800"), "lone \\ud800"),
        (KeyError("\x00"), "'\\x00'"),
    ],
)
def test_what_a_foreign_error_says_can_be_had_and_sent(error: Exception, said: str) -> None:
    assert words_of(error) == said
    words_of(error).encode()


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    said = words_of(ValueError("begin" + "x" * 50_000_000 + "end"))
    assert len(said) < 5_000
    assert said.startswith("begin")
    assert said.endswith("end")
    assert "characters left out" in said


def test_the_first_line_is_never_empty() -> None:
    assert first_line(ValueError()) == "ValueError"
    assert first_line(ValueError("\n  \nthis.\nthat")) == "this"
    assert len(first_line(ValueError("y" * 10**6))) < 400


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError(), "ValueError"),
        (ValueError("ValueError"), "ValueError"),
        (ValueError("\nthis.\nthat"), "ValueError: this"),
        (Hostile(), "Hostile: (its text cannot be read: __str__ raised LookupError)"),
    ],
)
def test_an_error_in_short_is_one_line(error: Exception, said: str) -> None:
    assert in_short(error) == said


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def read() -> NoReturn:
        raise error

    return read


def test_a_part_that_fails_is_named_and_costs_no_other() -> None:
    left_out = LeftOut()
    assert left_out.unless("Rows", lambda: (1,), ()) == (1,)
    assert left_out.unless("Kernels", raising(ZeroDivisionError("division by zero")), None) is None
    assert left_out.unless("Lines", raising(Hostile()), ()) == ()
    assert left_out.unless("Copies", lambda: None, ()) is None
    assert left_out.said == [
        "Kernels are left out (ZeroDivisionError: division by zero).",
        "Lines are left out (Hostile: (its text cannot be read: __str__ raised LookupError)).",
    ]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_no_part_that_fails(kind: type[BaseException]) -> None:
    left_out = LeftOut()
    with pytest.raises(kind):
        left_out.unless("Rows", raising(kind()), ())
    assert left_out.said == []
