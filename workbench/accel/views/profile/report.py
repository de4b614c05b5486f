"""A Profile shown: its sections in reading order, as text and as static HTML, and its figures by kind.

A new section is a file of this folder and a line in SECTIONS; a new figure is a file in `figures/` and a line in FIGURES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.errors import UnknownName, in_short
from accel.html_parts import Markup, block, details, heading, note
from accel.profiling.profile import Profile
from accel.profiling.profile_notes import is_routine
from accel.units import counted, milliseconds
from accel.views.one_screen import one_screen
from accel.views.profile.compilation import COMPILATION
from accel.views.profile.devices import DEVICES
from accel.views.profile.figures.memory import memory_figure
from accel.views.profile.figures.roofline import roofline_figure
from accel.views.profile.figures.steps import steps_figure
from accel.views.profile.figures.sunburst import sunburst
from accel.views.profile.findings import FINDINGS, short_lines
from accel.views.profile.lines import LINES
from accel.views.profile.loaders import LOADERS
from accel.views.profile.memory import MEMORY
from accel.views.profile.modules import MODULES
from accel.views.profile.operations import FEW, OPERATIONS, op_line, ops_title
from accel.views.profile.phases import PHASES, WORTH_A_ROW, phase_line, phases_title
from accel.views.profile.roofline import ROOFLINE
from accel.views.profile.section import Section
from accel.views.profile.steps import STEPS
from accel.views.profile.synchronisations import SYNCHRONISATIONS

OF_A_CELL = "Shown in short: %%accel profile --full shows all of it; -o NAME keeps it for print(NAME)."
OF_A_TRACE = "Shown in short: print(_) shows all of it."
NAME_IN_SHORT, MOST_PHASES, MOST_FINDINGS, LINES_OF_ASKED = 50, 6, 3, 4  # on a screen

if TYPE_CHECKING:
    import plotly.graph_objects


def text(profile: Profile) -> str:
    """For a terminal: all sections that have something to say, narrow enough for it."""
    said = ("\n".join(_said(section, profile)) for section in SECTIONS)
    return "\n\n".join(each for each in said if each)


def _said(section: Section, profile: Profile) -> list[str]:
    """The lines of a section; if it cannot be drawn, one line says so and the other sections remain."""
    try:
        return list(section.text(profile))
    except Exception as error:
        return [_not_drawn(section, error)]


def _not_drawn(section: Section, error: Exception) -> str:
    return f"accel could not show the section {section.name!r} ({in_short(error)})."


def short(profile: Profile) -> str:
    """For a terminal, at most a screen: the time of a step, its largest phases, findings and operations."""
    return one_screen(
        [line for section in IN_SHORT for line in _said(section, profile)],
        more=OF_A_TRACE if profile.timing.whole == "trace" else OF_A_CELL,
    )


def _short_phases(profile: Profile) -> list[str]:
    phases = [phase_line(phase) for phase in profile.phases if phase.share >= WORTH_A_ROW]
    return [phases_title(profile), *phases[:MOST_PHASES]] if phases else []


def _short_operations(profile: Profile) -> list[str]:
    operations = [op_line(row, NAME_IN_SHORT) for row in profile.by_phase[:FEW]]
    return [ops_title(profile), *operations] if operations else []


def html(profile: Profile) -> Markup:
    """For a notebook: readable in a saved one, without a kernel, in an untrusted one. Sections that are not open are folded."""
    return block(*(part for section in SECTIONS for part in _drawn(section, profile)))


def _drawn(section: Section, profile: Profile) -> Iterable[object]:
    try:
        pieces = list(section.html(profile))
    except Exception as error:
        return [note(_not_drawn(section, error))]
    if section.is_open or not pieces:
        return pieces
    title = next(iter(_said(section, profile)), section.name)
    return [details(title, *pieces[pieces[0] == heading(title) :])]


def figure(profile: Profile, kind: str = "sunburst") -> plotly.graph_objects.Figure:
    """Draw one; a wrong kind gives the nearest right word, missing data the option that brings it."""
    if kind not in FIGURES:
        raise UnknownName("figure", kind, FIGURES)
    return FIGURES[kind](profile)


def step_line(profile: Profile) -> str:
    """The step time with its spread and its count, in one line."""
    if not profile.steps:
        return f"No training step was seen; the {profile.timing.whole} took {milliseconds(profile.timing.cell_ms)}"
    low, high = profile.spread_ms
    spread = f"median; quartiles {milliseconds(low)} to {milliseconds(high)}, " if profile.steps > 1 else ""
    unit = profile.timing.unit
    speed = f" · {profile.samples_per_s:,.0f} samples/s" if profile.samples_per_s else ""
    batches = f" · {profile.accumulation} batches a step" if profile.accumulation > 1 else ""
    return (
        f"{milliseconds(profile.step_ms)} a {unit} ({spread}{counted(profile.steps, unit)}){speed}{batches}"
    )


def _warnings(profile: Profile) -> list[str]:
    """What a reader must know before believing it, where that is more than in every profile."""
    lost = [] if profile.completeness.is_complete else [f"{profile.completeness}."]
    return [*lost, *(said for said in profile.notes if not is_routine(said))]


HEADLINE = Section(
    "headline",
    text=lambda profile: [step_line(profile)],
    html=lambda profile: [heading(step_line(profile)), *map(note, _warnings(profile))],
    is_open=True,
)
NOTES = Section(
    "notes",
    text=lambda profile: [*(f"Note: {said}" for said in profile.notes), profile.machine_line],
    html=lambda profile: [details(profile.machine_line, *map(note, filter(is_routine, profile.notes)))],
    is_open=True,
)
# fmt: off
SECTIONS: tuple[Section, ...] = (
    HEADLINE,      # how long a step takes
    STEPS,         # every step of the run: which were left out
    PHASES,        # where it goes
    FINDINGS,      # what to do about it
    LOADERS,       # what making a batch consists of
    OPERATIONS,    # the most expensive operations
    MODULES,       # the most expensive modules
    ROOFLINE,      # how near operations come to what this machine can do
    DEVICES,       # each GPU: busy or idle and why, copies, kernels, and whether its rows are complete
    LINES,         # the user's lines that led to them (--stacks)
    MEMORY,        # bytes held over the steps (--memory)
    SYNCHRONISATIONS,  # where tensors are read back
    COMPILATION,   # what torch.compile did
    NOTES,         # what a reader must know before believing it, and the machine
)
# fmt: on
ASKED = (ROOFLINE, LINES, MEMORY)  # which a profile has only where an option asked for them


def _beginning(section: Section) -> Section:
    return replace(section, text=lambda profile: list(section.text(profile))[:LINES_OF_ASKED])


IN_SHORT = (
    HEADLINE,
    Section("warnings", _warnings, _warnings),
    Section("phases", _short_phases, _short_phases),
    *map(_beginning, ASKED),
    Section("findings", lambda profile: short_lines(profile.findings, most=MOST_FINDINGS), FINDINGS.html),
    Section("operations", _short_operations, _short_operations),
)
FIGURES: dict[str, Callable[[Profile], Any]] = {
    "sunburst": sunburst,
    "steps": steps_figure,
    "memory": memory_figure,
    "roofline": roofline_figure,
}
