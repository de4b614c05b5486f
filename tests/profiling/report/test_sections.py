"""What every section of the report promises, asked of all of them."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from accel.html_parts import text
from accel.profiling.findings import Finding, Prediction
from accel.profiling.step_timing import PhaseShare, StepTiming
from accel.shown import in_full
from accel.views.profile.report import IN_SHORT, SECTIONS, html, short

FINDING = Finding(
    "rule", "The update is not fused: 16 % of each step", "w.", 0.16, ("e",), Prediction(1.14, 1.08, 1.33, "Amdahl"),
    ("fused_optimizer",), "", "never",
)  # fmt: skip
EVIL = "<img src=x onerror=alert(1)>"
ALLOWED = {
    "div",
    "span",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "code",
    "pre",
    "b",
    "br",
}

named = pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)


class Tags(HTMLParser):
    """The tags of a piece of HTML, which have to be balanced, and their attributes."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen, self.attributes = [], set(), set()
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def empty(real_profile):
    """A profile in which nothing was seen."""
    timing = StepTiming((), (), 0, 0, 0, "step", False, False, cell_ms=3.0)
    bare = {
        name: field.default
        for name, field in type(real_profile).__dataclass_fields__.items()
        if field.default in ((), None)
    }
    return replace(real_profile, **bare, timing=timing, rows=(), profiled_steps=0, notes=())


@named
def test_html_has_only_tags_that_an_untrusted_notebook_keeps(section, real_profile):
    tags = Tags("".join(text(part) for part in section.html(real_profile)))
    assert tags.seen <= ALLOWED
    assert not {name for name in tags.attributes if name.startswith("on")}


@named
def test_text_and_html_are_both_there_or_both_left_out(section, real_profile, empty):
    for profile in (real_profile, empty):
        assert bool(list(section.text(profile))) == bool(list(section.html(profile)))


@named
def test_text_fits_a_terminal(section, real_profile):
    assert all(len(line) <= 130 for line in section.text(real_profile) if not line.startswith("Note"))


@named
def test_what_the_user_named_is_escaped(section, real_profile):
    phases = (PhaseShare(EVIL, 1.0, 2.0),)
    rows = tuple(replace(row, op=EVIL, phase=EVIL, module=EVIL) for row in real_profile.rows)
    hostile = replace(
        real_profile,
        timing=replace(real_profile.timing, phases=phases),
        rows=rows,
        notes=(EVIL,),
        machine_line=EVIL,
    )
    assert "<img" not in "".join(text(part) for part in section.html(hostile))


def test_without_data_only_headline_and_notes_are_left(empty):
    shown = [section.name for section in SECTIONS if list(section.html(empty))]
    assert shown == ["headline", "notes"]


def test_names_of_sections_are_different():
    names = [section.name for section in SECTIONS]
    assert len(set(names)) == len(names)


def test_a_page_shows_phases_findings_and_operations_and_a_line_of_each_other_section(real_profile):
    page = str(html(real_profile))
    for section in SECTIONS:
        if list(section.html(real_profile)) and not section.is_open:
            assert f"{text(next(iter(section.text(real_profile))))}</summary>" in page
    whole = in_full(real_profile)._repr_mimebundle_()
    assert "<details>" not in whole["text/html"]
    assert whole["text/plain"] == str(real_profile)


def test_a_terminal_gets_one_screen_of_it(real_profile):
    many = replace(real_profile, findings=(FINDING,) * 5, notes=("A caveat. " * 30, *real_profile.notes))
    for profile in (real_profile, many):
        shown = profile._repr_mimebundle_()["text/plain"].splitlines()
        assert len(shown) <= 24
        assert max(map(len, shown)) <= 100
        assert shown[0] == str(profile).splitlines()[0]
        assert "--full" in shown[-1]
    assert "A caveat." in shown[1]
    assert any("Try: %accel try fused_optimizer" in line for line in shown)


def with_nothing_in(profile, field):
    """The profile with None in the place of each thing that one of its fields lists: what reads it raises."""
    nothing = {field: (None,) * 3}
    if field in ("phases", "each_step"):
        return replace(profile, timing=replace(profile.timing, **nothing))
    return replace(profile, **nothing)


@pytest.mark.parametrize(
    ("field", "lost"),
    [
        ("each_step", {"steps"}),
        ("phases", {"phases"}),
        ("findings", {"findings"}),
        ("loaders", {"loaders"}),
        ("rows", {"operations", "modules"}),
        ("devices", {"devices"}),
        ("lines", {"lines"}),
        ("memory", {"memory"}),
        ("synchronisations", {"synchronisations"}),
    ],
)
def test_a_section_that_cannot_be_drawn_says_so_and_costs_no_other(field, lost, real_profile):
    sound = replace(real_profile, findings=())  # leaves room on a screen
    broken = with_nothing_in(sound, field)
    whole, page, screen = str(broken), str(html(broken)), short(broken)
    for section in SECTIONS:
        said = f"accel could not show the section {section.name!r} ("
        count = int(section.name in lost)
        assert (whole.count(said), page.count(text(said))) == (count, count)
        assert screen.count(said) == int(section.name in lost & {each.name for each in IN_SHORT})
        if not count:
            assert "\n".join(section.text(sound)) in whole
            drawn = list(section.html(sound))[0 if section.is_open else 1 :]  # its title is what is clicked
            assert all(text(piece) in page for piece in drawn)


def test_operations_are_copied_as_a_table(real_profile):
    lines = real_profile.to_markdown(most=2).splitlines()
    assert lines[2].startswith("| op | phase |")
    assert len(lines) == 2 + 4 + 2
    assert real_profile.to_csv("phases").splitlines()[0] == "name,share,ms"
