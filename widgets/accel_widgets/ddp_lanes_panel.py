"""A data-parallel run live: a lane for each rank, and a button that stops all of them after the same step."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel.distributed.rank_page import RankLane
from accel_widgets.theme import FOLDER, themed

if TYPE_CHECKING:
    from accel.distributed.ddp_run import DdpRun

SECONDS_BETWEEN_UPDATES = 0.25


class DdpLanesPanel(anywidget.AnyWidget):
    """Draws the lanes of a run while it goes on, and its result when its state is home.

    >>> DdpLanesPanel(run)
    >>> run.stop()                            # as the button does
    """

    _esm = FOLDER / "ddp_lanes_panel.js"
    _css = themed("ddp_lanes_panel.css")

    line = traitlets.Unicode().tag(sync=True)
    lanes = traitlets.List(traitlets.Dict()).tag(sync=True)
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    is_running = traitlets.Bool(True).tag(sync=True)

    def __init__(self, run: DdpRun, **traits: Any) -> None:
        self.run = run
        super().__init__(**traits)
        self.on_msg(self._told)
        self._closed = threading.Event()
        self.refresh()
        self._watching = threading.Thread(target=self._watch, name="accel-ddp-lanes", daemon=True)
        self._watching.start()

    def refresh(self) -> None:
        """Draw what is known now; from any thread."""
        with self.hold_sync():
            self.is_running = not self.run.is_over
            self.line = self.run.line
            self.lanes = lanes_traits(self.run.lanes)
            self.notes = self._notes()

    def close(self) -> None:
        """Take it off the page; the run goes on."""
        self._closed.set()
        super().close()

    def _watch(self) -> None:
        while not self._closed.wait(SECONDS_BETWEEN_UPDATES):
            is_last = self.run.is_over and (self.run.result is not None or self.run.error is not None)
            self.refresh()
            if is_last:
                return

    def _notes(self) -> list[str]:
        if self.run.error is not None:
            return str(self.run.error).splitlines()
        if self.run.result is not None:
            return [self.run.result.state_line, *self.run.result.warnings]
        return []

    def _told(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        if message.get("do") == "stop":
            self.run.stop()
            self.refresh()

    def _repr_mimebundle_(self, **named: Any) -> dict[str, Any]:
        live = super()._repr_mimebundle_(**named)
        bundle: dict[str, Any] = live[0] if isinstance(live, tuple) else live
        return {**bundle, **self.run._repr_mimebundle_()}  # where no widget is shown


def lanes_traits(lanes: tuple[RankLane, ...]) -> list[dict[str, Any]]:
    """What the page draws of each rank: texts, its share of waiting, and how far it is behind the fastest."""
    furthest = max((lane.step for lane in lanes), default=0)
    return [
        {
            "rank": lane.rank, "phase": lane.phase, "step": lane.step, "behind": furthest - lane.step,
            "loss": f"{lane.loss:.4g}" if lane.step and not math.isnan(lane.loss) else "",
            "rate": f"{lane.samples_per_s:,.0f}", "waiting": round(lane.communication_share, 3),
            "memory": f"{lane.memory_bytes / 2**20:,.0f} MiB" if lane.memory_bytes else "",
        }
        for lane in lanes
    ]  # fmt: skip
