"""The cores and who is on them, live: `%accel affinity`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel.machine.affinity import AffinityLooks
from accel_widgets.core_map_view import core_map_traits
from accel_widgets.looks_while_seen import LooksWhileSeen
from accel_widgets.static_panel import SavedPanel
from accel_widgets.theme import scripts, themed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel.machine.affinity import Affinity

FIND_EVERY = 3  # looks: processes come and go more rarely than threads move


class CoreMapPanel(SavedPanel, anywidget.AnyWidget):
    """Draws CPUs by socket, node, cache and core with the threads on them; looks about once a second while it is seen.

    >>> panel = CoreMapPanel(ranks={0: first.pid, 1: second.pid})
    >>> panel.affinity                   # what is on the page now
    >>> panel.close()                    # it looks no more

    Folded (`is_open` False), off the screen or in a closed page it costs nothing; nor, with `looks_now=False`, before it is seen.
    """

    _esm = scripts("elements.js", "seen.js", "core_map_panel.js")
    _css = themed("core_map_panel.css")

    boxes = traitlets.List(traitlets.Dict()).tag(sync=True)
    is_compact = traitlets.Bool().tag(sync=True)
    processes = traitlets.List(traitlets.Dict()).tag(sync=True)
    cpus = traitlets.Dict().tag(sync=True)
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    summary = traitlets.List(traitlets.Unicode()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    is_open = traitlets.Bool(True).tag(sync=True)

    def __init__(
        self, affinity: Affinity | None = None, *, ranks: Mapping[int, int] | None = None, looks_now: bool = True,
        **traits: Any,
    ) -> None:  # fmt: skip
        super().__init__(**traits)
        self.affinity: Affinity | None = None
        self._ranks, self._looks = dict(ranks or {}), None
        self._looked, self._looking = 0, threading.Lock()
        self._live = LooksWhileSeen(self.refresh)
        self.on_msg(self._told)
        if affinity is not None:
            self.show(affinity)
        elif looks_now and self.is_open:
            self.refresh()

    def refresh(self) -> None:
        """Look now, and draw what has changed; from any thread."""
        with self._looking:
            if self._looks is None:
                self._looks = AffinityLooks(self._ranks)
            found = self._looks.look(find_processes=self._looked % FIND_EVERY == 0)
            self._looked += 1
            self.show(found)

    def show(self, found: Affinity) -> None:
        """Draw this; only what differs from what is on the page goes there."""
        self.affinity = found
        with self.hold_sync():
            for name, value in core_map_traits(found).items():
                setattr(self, name, value)

    def close(self) -> None:
        """Take it off the page and look no more."""
        self._live.close()
        super().close()

    @property
    def is_live(self) -> bool:
        """Whether it looks again and again just now."""
        return self._live.is_looking

    def _told(self, _widget: object, message: Any, _buffers: object) -> None:
        """A page says whether it shows the map; it repeats that while it does."""
        is_folded = isinstance(message, dict) and not self.is_open
        self._live.told({**message, "seen": False} if is_folded else message)

    def _stand_in(self) -> dict[str, str]:
        return self.affinity._repr_mimebundle_() if self.affinity else {}
