"""The picture of the architecture, as SVG for light and dark pages; `docs.generated_pages` writes both."""

from __future__ import annotations

from html import escape
from typing import Literal, NamedTuple

Look = Literal["light", "dark"]
COLOURS: dict[Look, dict[str, str]] = {
    "light": {"box": "#eef0fb", "edge": "#3f51b5", "text": "#1c2130", "small": "#4a5068", "arrow": "#5c6bc0"},
    "dark": {"box": "#2b3150", "edge": "#8c9eff", "text": "#eceef8", "small": "#b9bfd8", "arrow": "#9fa8da"},
}
WIDTH, HEIGHT, HIGH = 695, 584, 64


class Box(NamedTuple):
    """A part of the engine: its corner and width, its name, and what it does."""

    x: int
    y: int
    wide: int
    name: str
    does: str


BOXES = (
    Box(10, 10, 215, "notebook", "magics, completion"),
    Box(240, 10, 215, "functions, shell", "accel.try_, accel doctor"),
    Box(470, 10, 215, "panels", "accel_widgets"),
    Box(
        10, 110, 675, "workbench, commands", "one notebook: its workload, profile, trials, and the kept plan"
    ),
    Box(10, 210, 215, "workload, hooks", "a cell and its steps"),
    Box(240, 210, 215, "profiling", "where time goes → Profile"),
    Box(470, 210, 215, "diagnosis, history", "what to do → Findings"),
    Box(470, 310, 215, "accelerations, plans", "what to try → Plan"),
    Box(240, 310, 215, "workers", "copies that take turns"),
    Box(10, 310, 215, "measuring", "intervals → Ladder"),
    Box(10, 410, 215, "exporting", "the plan in plain PyTorch"),
    Box(240, 410, 215, "opgraph, traces", "models; foreign traces"),
    Box(470, 410, 215, "distributed", "ranks → DdpResult, Sweep"),
    Box(10, 510, 215, "views", "results as text and HTML"),
    Box(240, 510, 215, "machine", "cores, GPUs, load, peaks"),
    Box(470, 510, 215, "processes", "children and their disk"),
)
# From what is called down; along a profile; back through a trial; on to what is kept, and to ranks.
ARROWS = (
    *((x, 10 + HIGH, x, 106) for x in (117, 347, 577)),
    (117, 174, 117, 206), (225, 242, 236, 242), (455, 242, 466, 242), (577, 274, 577, 306), (470, 342, 459, 342),
    (240, 342, 229, 342), (117, 374, 117, 406), (577, 374, 577, 406),
)  # fmt: skip


def diagram(look: Look) -> str:
    """The picture in the colours of light or dark pages."""
    colour = COLOURS[look]
    arrows = "\n".join(
        f'<path d="M{x} {y}L{to_x} {to_y}" stroke="{colour["arrow"]}" stroke-width="2" marker-end="url(#end)"/>'
        for x, y, to_x, to_y in ARROWS
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif">
<defs><marker id="end" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="5" markerHeight="5" orient="auto">
<path d="M0 0L8 4L0 8z" fill="{colour["arrow"]}"/></marker></defs>
{arrows}
{chr(10).join(_drawn(box, colour) for box in BOXES)}
</svg>
"""


def _drawn(box: Box, colour: dict[str, str]) -> str:
    middle = box.x + box.wide // 2
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{box.wide}" height="{HIGH}" rx="8" '
        f'fill="{colour["box"]}" stroke="{colour["edge"]}"/>\n'
        f'<text x="{middle}" y="{box.y + 28}" text-anchor="middle" font-size="17" font-weight="600" '
        f'fill="{colour["text"]}">{escape(box.name)}</text>\n'
        f'<text x="{middle}" y="{box.y + 49}" text-anchor="middle" font-size="14" '
        f'fill="{colour["small"]}">{escape(box.does)}</text>'
    )
