"""A Profile shown: its sections in reading order, as text and as static HTML, and its figures by kind.

A new section is a file of this folder and a line in SECTIONS; a new figure is a file in `figures/` and a line in FIGURES.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel.errors import UnknownName
from accel.html_parts import Markup, block, heading, note
from accel.profiling.profile import Profile
from accel.units import counted, milliseconds
from accel.views.profile.compilation import COMPILATION
from accel.views.profile.devices import DEVICES
from accel.views.profile.figures.memory import memory_figure
from accel.views.profile.figures.roofline import roofline_figure
from accel.views.profile.figures.steps import steps_figure
from accel.views.profile.figures.sunburst import sunburst
from accel.views.profile.findings import FINDINGS
from accel.views.profile.lines import LINES
from accel.views.profile.loaders import LOADERS
from accel.views.profile.memory import MEMORY
from accel.views.profile.modules import MODULES
from accel.views.profile.operations import OPERATIONS
from accel.views.profile.phases import PHASES
from accel.views.profile.roofline import ROOFLINE
from accel.views.profile.section import Section
from accel.views.profile.steps import STEPS
from accel.views.profile.synchronisations import SYNCHRONISATIONS

if TYPE_CHECKING:
    import plotly.graph_objects


def text(profile: Profile) -> str:
    """For a terminal: all sections that have something to say, narrow enough for it."""
    said = ("\n".join(section.text(profile)) for section in SECTIONS)
    return "\n\n".join(each for each in said if each)


def html(profile: Profile) -> Markup:
    """For a notebook: readable in a saved one, without a kernel, in an untrusted one."""
    return block(*(part for section in SECTIONS for part in section.html(profile)))


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
    spread = f"quartiles {milliseconds(low)} to {milliseconds(high)}, " if profile.steps > 1 else ""
    unit = profile.timing.unit
    speed = f" · {profile.samples_per_s:,.0f} samples/s" if profile.samples_per_s else ""
    batches = f" · {profile.accumulation} batches a step" if profile.accumulation > 1 else ""
    return (
        f"{milliseconds(profile.step_ms)} a {unit} ({spread}{counted(profile.steps, unit)}){speed}{batches}"
    )


HEADLINE = Section(
    "headline",
    text=lambda profile: [step_line(profile)],
    html=lambda profile: [heading(step_line(profile))],
)
NOTES = Section(
    "notes",
    text=lambda profile: [*(f"Note: {said}" for said in profile.notes), profile.machine_line],
    html=lambda profile: map(note, [*profile.notes, profile.machine_line]),
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
FIGURES: dict[str, Callable[[Profile], Any]] = {
    "sunburst": sunburst,
    "steps": steps_figure,
    "memory": memory_figure,
    "roofline": roofline_figure,
}
