"""Pieces of HTML: the user's text is always escaped, and nothing relies on a style sheet, a script or an image."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.html_parts import PHASE_COLOURS, Markup, bar, block, heading, note, stacked_bar, table, text

EVIL = st.text(max_size=40) | st.sampled_from(["<b>", "</td>", '"><script>', "'&", "<!--", "]]>", "\x00<"])


class Reader(HTMLParser):
    """What a browser would make of it: which elements there are, and which text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(EVIL)
def test_text_never_holds_a_raw_bracket_or_quote(value: str) -> None:
    assert not re.search("[<>\"']", text(value))


def test_markup_is_escaped_only_once() -> None:
    assert text(text("<b>")) == "&lt;b&gt;"


@given(EVIL, st.sampled_from([note, heading, block]))
def test_no_text_adds_an_element(value: str, make: object) -> None:
    assert callable(make)
    read = Reader(make(value))
    assert read.elements == Reader(make("plain")).elements
    assert read.open == []


@given(st.lists(st.tuples(EVIL, EVIL), max_size=4))
def test_a_table_has_its_rows_and_columns_whatever_is_in_them(rows: list[tuple[str, str]]) -> None:
    read = Reader(table(["<name>", "ms"], rows, numeric=[1]))
    assert read.elements.count("th") == 2
    assert read.elements.count("td") == 2 * len(rows)
    assert set(read.elements) <= {"table", "thead", "tbody", "tr", "th", "td"}


def test_the_headings_of_a_table_say_that_they_are_of_columns() -> None:
    assert table(["a", "b"], [["c", "d"]]).count('<th scope="col"') == 2


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("phase", [*PHASE_COLOURS, "forward → backward"])
def test_white_text_can_be_read_on_the_colour_of_each_phase(phase: str) -> None:
    html = stacked_bar([(phase, 1.0)])
    background, text_colour = re.findall(r"background-color:(#\w{6});color:(#\w+)", html)[0]
    assert text_colour == "#fff"
    assert 1.05 / (luminance(background) + 0.05) >= 4.5


def test_a_row_with_too_many_values_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        table(["a"], [("x", "y")])


@given(st.floats(allow_nan=False))
def test_a_bar_stays_between_nothing_and_full(share: float) -> None:
    width = float(re.findall(r"width:(-?[\d.]+)%", bar(share))[0])
    assert 0 <= width <= 100


@given(st.lists(st.tuples(EVIL, st.floats(0, 1)), max_size=4))
def test_each_part_of_a_stacked_bar_names_itself(parts: list[tuple[str, float]]) -> None:
    html = stacked_bar(parts)
    assert html.count("title=") == len(parts)
    assert set(Reader(html).elements) == {"div"}


def test_a_part_too_narrow_for_its_text_keeps_it_as_a_tooltip() -> None:
    html = stacked_bar([("data", 0.01), ("forward", 0.99)])
    assert 'title="data 1 %"' in html
    assert ">data" not in html
    assert ">forward 99 %<" in html


def test_nothing_needs_a_style_sheet_a_script_or_an_image() -> None:
    whole = block(
        heading("h"),
        table(["a"], [["b"]]),
        bar(0.5),
        stacked_bar([("data", 1.0)]),
        note("n"),
        Markup("<i>x</i>"),
    )
    assert not {"style", "script", "svg", "img", "link"} & set(Reader(whole).elements)
    assert "<i>x</i>" in whole
