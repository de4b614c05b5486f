"""A data-parallel run live: a lane for each rank, and a button that stops all of them after the same step."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel_widgets.looks_while_seen import LooksWhileSeen
from accel_widgets.main_thread import hear_while_busy
from accel_widgets.static_panel import SavedPanel
from accel_widgets.theme import scripts, themed

if TYPE_CHECKING:
    from accel.distributed.cells.watched_run import WatchedRun
    from accel.distributed.ranks.rank_page import RankLane

GAP_S = 0.25


class DdpLanesPanel(SavedPanel, anywidget.AnyWidget):
    """Draws the lanes of a run while it goes on and is seen, and how it ended.

    >>> panel = DdpLanesPanel(run)
    >>> run.stop()                            # as the button does
    >>> panel.show(workbench.ranks.latest)    # another run

    Of a run in the background Stop works always; of one that a cell waits for, where the kernel hears clicks meanwhile, which
    the first word of the page proves. Folded, off the screen or in a closed page nothing is read; of a run's end it hears.
    """

    _esm = scripts("elements.js", "seen.js", "ddp_lanes_panel.js")
    _css = themed("ddp_lanes_panel.css")

    line = traitlets.Unicode().tag(sync=True)
    lanes = traitlets.List(traitlets.Dict()).tag(sync=True)
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    can_stop = traitlets.Bool().tag(sync=True)
    has_fold = traitlets.Bool().tag(sync=True)  # it is a part of a panel, and not there before a run
    is_open = traitlets.Bool(True).tag(sync=True)

    def __init__(self, run: WatchedRun | None = None, **traits: Any) -> None:
        self.run: WatchedRun | None = None
        self._is_heard, self._drawing = False, threading.RLock()
        super().__init__(**traits)
        self._unsubscribe = lambda: None
        self._live = LooksWhileSeen(self.refresh, gap_s=GAP_S, is_wanted=lambda: self.is_running)
        self.on_msg(self._told)
        if run is not None:
            self.show(run)

    @property
    def is_running(self) -> bool:
        """Whether its run goes on."""
        return self.run is not None and not self.run.is_over

    @property
    def is_live(self) -> bool:
        """Whether it looks again and again just now."""
        return self._live.is_looking

    def show(self, run: WatchedRun) -> None:
        """Draw this run from now on; from any thread."""
        with self._drawing:
            if run is not self.run:
                self._unsubscribe()
                self.run, self._is_heard = run, False
                self._unsubscribe = run.on_change(self.refresh)
        self.refresh()
        self._live.again()

    def refresh(self) -> None:
        """Draw what is known now; from any thread."""
        with self._drawing, self.hold_sync():
            if (run := self.run) is None:
                return
            self.can_stop = self.is_running and (run.is_background or self._is_heard)
            how = "" if self.can_stop else run.how_to_stop
            self.line, self.notes = run.line, [*run.notes, *filter(None, [how])]
            self.lanes = lanes_traits(run.lanes, run.straggler)
        hear_while_busy(self)

    def close(self) -> None:
        """Take it off the page; the run goes on."""
        self._unsubscribe()
        self._live.close()
        super().close()

    def _told(self, _widget: object, message: Any, _buffers: object) -> None:
        """A page says whether it shows the lanes, or passes on a click; from whichever thread the message arrives in."""
        if not isinstance(message, dict):
            return
        if self.run is not None and self.is_running:
            if message.get("do") == "stop":
                self.run.stop()
            if not self._is_heard or "do" in message:
                self._is_heard = True
                self.refresh()
        self._live.told({**message, "seen": False} if "seen" in message and not self.is_open else message)

    def _stand_in(self) -> dict[str, str]:
        return self.run._repr_mimebundle_() if self.run is not None else {}


def lanes_traits(lanes: tuple[RankLane, ...], straggler: int | None = None) -> list[dict[str, Any]]:
    """What the page draws of each rank: texts, its share of waiting, how far it is behind, and whether others wait for it."""
    furthest = max((lane.step for lane in lanes), default=0)
    return [
        {
            "rank": lane.rank, "phase": lane.phase, "step": lane.step, "behind": furthest - lane.step,
            "loss": f"{lane.loss:.4g}" if lane.step and not math.isnan(lane.loss) else "",
            "rate": f"{lane.samples_per_s:,.0f}", "waiting": round(lane.communication_share, 3),
            "memory": f"{lane.memory_bytes / 2**20:,.0f} MiB" if lane.memory_bytes else "",
            "holds_up": lane.rank == straggler,
        }
        for lane in lanes
    ]  # fmt: skip
