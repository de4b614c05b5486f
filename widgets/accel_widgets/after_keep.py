"""Below the profile, once a plan is kept: what to do to see what it changed, and then what it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets

from accel.html_parts import breaking, details, div
from accel.views.profile_diff import headline, html_parts

if TYPE_CHECKING:
    from accel.workbench import Workbench

DO = "Profile again to see what changed"


class AfterKeep(ipywidgets.HTML):
    """Empty while nothing is kept; the difference is folded behind its headline.

    >>> line = AfterKeep()
    >>> line.show(workbench)
    """

    def __init__(self) -> None:
        super().__init__(_dom_classes=("accel-after-keep",))
        self._compared: tuple[object, ...] = ()

    def show(self, workbench: Workbench) -> None:
        """What there is to say of the kept plan; one difference is reckoned once, and stays open if it was."""
        before, after, kept = workbench.profile_without, workbench.profile_of_workload, workbench.kept
        is_known = self._compared == (before, after, kept)
        self._compared = (before, after, kept)
        if before is None or after is None or not kept:
            self.value = ""
        elif workbench.profiled_with != kept:
            self.value = div("", f"{DO}: ", breaking(str(kept)), " is kept.")
        elif not is_known:
            difference = before.diff(after)
            drawn = div("overflow-x:auto", *html_parts(difference))
            self.value = details(f"Before and after Keep: {headline(difference)}", drawn)
