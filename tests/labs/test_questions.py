"""Each kind of question: what is shown tells no answer, and each answer is marked with what teaches."""

from __future__ import annotations

import json

import pytest

from accel.errors import AccelError
from accel.labs.quiz.questions import Item, Matching, Multiple, Near, Numeric, Option, Ordering, Pair, Single

OPTIONS = tuple(Option(f"option {place}", f"why {place}", place in (1, 3)) for place in range(4))
ONE = Single(id="one", lesson="l", ask="Which?", options=(*OPTIONS[:3], Option("option 3", "why 3")))
SOME = Multiple(id="some", lesson="l", ask="Which ones?", options=OPTIONS)
NUMBER = Numeric(
    id="number", lesson="l", ask="How many?", answer=1250, tolerance=5, why="because", otherwise="count again", unit="steps",
    near=(Near(1200, "the last batch counts"),),
)  # fmt: skip
ORDER = Ordering(
    id="order",
    lesson="l",
    ask="In which order?",
    items=tuple(Item(f"item {at}", f"why {at}") for at in range(4)),
)
PAIRS = Matching(
    id="pairs", lesson="l", ask="What belongs together?",
    pairs=tuple(Pair(f"left {at}", f"right {at}", f"why {at}") for at in range(3)), extra=(Item("right x", "nothing"),),
)  # fmt: skip
ALL = (ONE, SOME, NUMBER, ORDER, PAIRS)


def shown(question, *texts):
    """The places at which these texts are shown."""
    return [question.asked()["choices"].index(text) for text in texts]


@pytest.mark.parametrize("question", ALL, ids=lambda each: each.kind)
def test_what_is_asked_holds_neither_reasons_nor_what_is_right(question):
    text = json.dumps(question.asked())
    assert "why" not in text
    assert "correct" not in text
    assert "1250" not in text
    assert not question.problems()


@pytest.mark.parametrize("question", [ORDER, PAIRS, ONE], ids=lambda each: each.kind)
def test_options_are_shown_in_another_order_than_written_and_always_in_the_same(question):
    choices = question.asked()["choices"]
    assert choices != sorted(choices)
    assert choices == question.asked()["choices"]


def test_a_wrong_option_says_why_it_is_wrong_and_nothing_about_the_others():
    marking = ONE.mark(shown(ONE, "option 2"))
    assert not marking.is_right
    assert [(each.text, each.why) for each in marking.remarks] == [("option 2", "why 2")]
    assert ONE.mark(shown(ONE, "option 1")).is_right


def test_several_right_options_are_all_wanted_and_no_other():
    assert SOME.mark(shown(SOME, "option 1", "option 3")).is_right
    one_short = SOME.mark(shown(SOME, "option 3"))
    assert (one_short.is_right, one_short.hint) == (False, "1 more is right.")
    assert one_short.remarks == ()
    one_too_many = SOME.mark(shown(SOME, "option 1", "option 2", "option 3"))
    assert [each.why for each in one_too_many.remarks] == ["why 2"]


@pytest.mark.parametrize(
    ("given", "is_right", "says"),
    [
        ("1250", True, "because"),
        ("1,247", True, "because"),
        ("1 200", False, "the last batch counts"),
        ("7", False, "count again"),
        ("1250 steps", True, "because"),
    ],
)
def test_a_number_is_right_within_its_tolerance_and_a_usual_mistake_is_named(given, is_right, says):
    marking = NUMBER.mark(given)
    assert marking.is_right == is_right
    assert says == (marking.remarks[0].why if is_right else marking.hint)


def test_an_order_says_how_far_it_is_right():
    assert ORDER.mark(shown(ORDER, "item 0", "item 1", "item 2", "item 3")).is_right
    swapped = ORDER.mark(shown(ORDER, "item 0", "item 1", "item 3", "item 2"))
    assert swapped.hint == "The first 2 are right, the next one is not."
    assert [each.why for each in swapped.remarks] == ["why 0", "why 1"]
    assert (
        ORDER.mark(shown(ORDER, "item 3", "item 1", "item 2", "item 0")).hint
        == "The first one is not yet right."
    )


def test_pairs_are_counted_and_what_belongs_to_none_says_so():
    assert PAIRS.mark(shown(PAIRS, "right 0", "right 1", "right 2")).is_right
    marking = PAIRS.mark(shown(PAIRS, "right 0", "right x", "right 2"))
    assert (marking.is_right, marking.hint) == (False, "2 of 3 belong together.")
    assert [each.why for each in marking.remarks] == ["nothing"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (ONE, []), (ONE, [9]), (ONE, ["1"]), (ONE, [0, 1]), (SOME, [True]), (NUMBER, "a dozen"), (NUMBER, ""), (NUMBER, "2,5"),
        (NUMBER, "nan"), (NUMBER, "1_250"), (ORDER, [0, 0, 1, 2]), (ORDER, [0, 1]), (PAIRS, [-1, 0, 1]), (PAIRS, [0]),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_not_marked_as_a_wrong_one(question, answer):
    with pytest.raises(AccelError, match=f"Your answer to {question.id}: "):
        question.mark(answer)


@pytest.mark.parametrize("question", ALL, ids=lambda each: each.kind)
def test_the_solution_explains_every_option(question):
    count = {"single": 4, "multiple": 4, "numeric": 1, "ordering": 4, "matching": 4}[question.kind]
    remarks = question.solution().remarks
    assert len(remarks) == count
    assert all(each.why for each in remarks)
