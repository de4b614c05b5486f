"""What torch.compile did in the cell: graphs, recompilations and graph breaks with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from accel.html_parts import heading, note, table
from accel.views.profile.section import SHOWN_ROWS, WIDTH, Section

if TYPE_CHECKING:
    from accel.profiling.compilation import Compilation
    from accel.profiling.profile import Profile


def _text(profile: Profile) -> Iterator[str]:
    if profile.compilation is None:
        return
    title, *found = str(profile.compilation).splitlines()
    yield title
    for line in found[:SHOWN_ROWS]:
        yield from wrap(line.strip(), WIDTH, initial_indent="  ", subsequent_indent="    ")


def _html(profile: Profile) -> Iterator[object]:
    found = profile.compilation
    if found is None:
        return
    yield heading(found.line)
    if found.recompilations or found.graph_breaks:
        yield table(["What", "Where", "Times", "Why"], list(_rows(found)), numeric=(2,))
    yield from map(note, found.notes)


def _rows(found: Compilation) -> Iterator[tuple[str, str, str, str]]:
    for again in found.recompilations[:SHOWN_ROWS]:
        yield f"compiled again: {again.function}", again.place, str(again.count), again.reason
    for broken in found.graph_breaks[:SHOWN_ROWS]:
        yield "graph break", broken.place, str(broken.count), broken.reason


COMPILATION = Section("compilation", _text, _html)
