"""How parts of a lab look: as text, as HTML with nothing unescaped, and as drawings in which nothing runs over its edge."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from accel.labs.course.chapter import FOLDER, Chapter, ExerciseForm, GuessForm, read_chapter
from accel.labs.course.diagram import Boxes, Diagram, Lanes
from accel.labs.course.grading import Graded
from accel.labs.course.guess import GuessOutcome
from accel.labs.course.lab import Lab
from accel.labs.course.recorded import Recorded
from accel.labs.course.reference_table import ReferenceTable
from accel.labs.student_record import StudentRecord
from accel.shown import view_of
from accel.views.labs.boxes_layout import place
from accel.views.labs.svg_parts import width_of, wrapped

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<b>&\"'"
OUTCOME = GuessOutcome(f"How long? {EVIL}", "ms", 1892.0, 2500.4, 0.9, f"on {EVIL}")
TABLE = ReferenceTable(
    f"Times {EVIL}", f"8 GPUs {EVIL}", ("plan", "s", "here s"), (("a", 1892.0, None), (EVIL, 0.35, 12))
)
CHAPTER = Chapter(
    5, f"Pipelines {EVIL}", "about", 60, guesses=(GuessForm("share", "?"),),
    exercises=(ExerciseForm("feed", "?", "faster_plan", "hint"),),
)  # fmt: skip
HARD = """
- kind: boxes
  id: all-ways
  says: Boxes <b> & "arrows" of every kind.
  rows:
    - [{id: top, text: 'One <b>', tone: main}]
    - [{id: a, text: rank 0, small: a small line}, {id: b, text: rank 1}, {id: c, text: rank 2, tone: bad}]
    - [{id: wide, text: all of them, wide: 3, tone: good}]
    - [{id: x, text: a rather long text that has to be broken}, {id: y, text: weights, tone: faint}]
  arrows:
    - {from: top, to: a, text: slice 0}
    - {from: top, to: b}
    - {from: top, to: c, text: slice 2}
    - {from: a, to: wide, both: true}
    - {from: c, to: a, text: round again}
    - {from: x, to: y, text: update}
    - {from: y, to: x}
    - {from: y, to: top, text: next step}
    - {from: a, to: top}
    - {from: x, to: x, text: itself}
    - {from: y, to: b, text: past the wide one}
- kind: lanes
  id: short-ones
  says: Lanes.
  unit: time in ms
  lanes:
    - {name: a process, spans: [{long: 3, text: load, tone: bad}, {long: 0.1, text: short}, {long: 0.1, text: shorter}]}
    - {name: another with a long name, spans: [{long: 2, tone: faint}, {long: 0.01, text: "hardly there, at the very end"}]}
"""
FORMS = msgspec.yaml.decode(HARD, type=list[Boxes | Lanes])
FORMS += [form for path in sorted(FOLDER.glob("*.yaml")) for form in read_chapter(path).diagrams]


def drawn(form):
    html = str(view_of(Diagram(form)).html(Diagram(form)))
    return ElementTree.fromstring(re.search(r"<svg.*</svg>", html, re.DOTALL)[0])


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (
            OUTCOME,
            [
                "How long?",
                "Your guess",
                "1,892 ms",
                "Measured here",
                "2,500 ms",
                "0.9 ms",
                "on <b>",
                "too low",
            ],
        ),
        (TABLE, ["Times", "1,892", "0.35", "Reference: 8 GPUs"]),
        (Recorded("x", Path("a/eight.json"), "8 GPUs <b>"), ["Recorded on 8 GPUs <b>: eight.json"]),
        (
            Lab(CHAPTER, StudentRecord(), "quick"),
            ["Lab 5: Pipelines", "60 minutes", "quick", "lab.guess(name)", "share", "feed"],
        ),
        (Diagram(FORMS[0]), ["Boxes <b>"]),
        (
            Graded("feed", True, 2.0, 2.0, "1.4×", "1.3×", "", {}),
            ["Passed: 2 of 2 points.", "Seen: 1.4×", "Asked: 1.3×"],
        ),
        (
            Graded("feed", False, 0.0, 2.0, "1.1× <b>", "1.3×", "Look <i>", {}, "It is not kept."),
            ["Not yet.", "Seen: 1.1× <b>", "Hint: Look <i>", "It is not kept."],
        ),
    ],
)
def test_each_is_shown_as_text_and_with_the_same_words_as_html_that_escapes_them(result, parts):
    text = re.sub(r" +", " ", str(result))
    assert [part for part in parts if part not in text] == []
    html = result._repr_mimebundle_()["text/html"]
    assert "<b>" not in html
    assert "<i>" not in html
    ElementTree.fromstring(html.replace("<!DOCTYPE html>", ""))


def test_what_was_not_given_or_measured_is_left_empty():
    assert "Your guess        –" in str(GuessOutcome("?", "ms", math.nan, 3.0))
    assert "The course" not in str(GuessOutcome("?", "ms", math.nan, 3.0))
    assert ">nan<" not in TABLE._repr_mimebundle_()["text/html"]
    assert "None" not in str(TABLE)


def test_lines_are_broken_between_words_and_none_is_too_wide():
    lines = wrapped("a rather long text that has to be broken", 90)
    assert len(lines) > 2
    assert max(map(width_of, lines)) <= 90


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)
def test_a_drawing_is_valid_says_what_it_shows_and_no_text_runs_over_its_edge(form):
    svg = drawn(form)
    assert svg.get("aria-label") == svg.find(f"{SVG}title").text == form.says
    left, top, wide, high = map(float, svg.get("viewBox").split())
    for text in svg.iter(f"{SVG}text"):
        size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
        begins = (
            x - width_of(text.text, size) * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
        )
        assert left <= begins
        assert begins + width_of(text.text, size) <= left + wide
        assert top <= y - size
        assert y <= top + high
    colours = {each.get(name) for each in svg.iter() for name in ("stroke", "fill")}
    assert not colours & {"black", "white", "#000", "#fff"}


@pytest.mark.parametrize(
    "form", [form for form in FORMS if isinstance(form, Boxes)], ids=lambda form: form.id
)
def test_boxes_of_a_row_stand_apart_and_hold_their_texts(form):
    for row in place(form):
        for box, following in pairwise(row):
            assert box.right < following.x
        for box in row:
            assert all(width_of(line) <= box.wide for line in box.lines)
            assert all(width_of(line, 11.0) <= box.wide for line in box.small)


def test_texts_of_spans_without_room_stand_below_or_under_the_pointer():
    svg = drawn(FORMS[1])
    texts = [text.text for text in svg.iter(f"{SVG}text")]
    titles = [title.text for title in svg.iter(f"{SVG}title")]
    assert {"load", "short", "shorter", "time in ms"} <= set(texts)
    assert {"short", "shorter", "hardly there, at the very end"} <= set(titles)
