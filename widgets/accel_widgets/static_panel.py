"""What stands in for a panel where no widget is shown: a saved notebook, an export, a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from accel.html_parts import Markup, block, note

if TYPE_CHECKING:
    from accel.workbench import Workbench

NEEDS_A_KERNEL = "A live panel: it needs a notebook with a kernel."
LIVE_ONLY = "This is how the workbench stood last; run the cell again for the live panel."
# JupyterLab shows a saved widget as "model not found" and passes over the HTML of the same output. So the HTML is an output of
# its own, right below, and of the two the page shows one: this where no panel stands above, the panel where it does.
_SHOWS_ONE = Markup(
    "<style>"
    ".jp-OutputArea-child:not(:has(.accel)):has(+ .jp-OutputArea-child [data-accel-saved]),"
    ".jp-OutputArea-child:has(.accel) + .jp-OutputArea-child:has([data-accel-saved])"
    "{display:none}</style>"
)


def static_panel(workbench: Workbench) -> dict[str, str]:
    """The profile and the last trial as text and as static HTML.

    >>> static_panel(workbench)["text/plain"]
    """
    trials = workbench.trials[workbench.first_trial :]
    results = [workbench.profile_result, trials[-1].result if trials else None]
    bundles = [result._repr_mimebundle_() for result in results if result is not None]
    if not bundles:
        return {"text/plain": str(workbench.status()), "text/html": block(str(workbench.status()))}
    return {
        "text/plain": "\n\n".join(bundle["text/plain"] for bundle in bundles),
        "text/html": block(*(Markup(bundle["text/html"]) for bundle in bundles), note(LIVE_ONLY)),
    }


class SavedPanel:
    """Before the widget's own class among the bases of a panel: what `_stand_in` gives is shown where the widget cannot be.

    >>> class CoreMapPanel(SavedPanel, anywidget.AnyWidget): ...
    """

    _saved: Any = None  # the display that a saved notebook shows, with the same id in each cell of the panel

    def _stand_in(self) -> dict[str, str]:
        """Text and static HTML; empty where there is nothing yet."""
        return {}

    def _repr_mimebundle_(self, **named: Any) -> dict[str, Any]:
        return {**self._widget_bundle(**named), **self._stand_in()}

    def _widget_bundle(self, **named: Any) -> dict[str, Any]:
        live = super()._repr_mimebundle_(**named)  # type: ignore[misc]
        return dict(live[0] if isinstance(live, tuple) else live)

    def _ipython_display_(self) -> None:
        """The live panel, and right below what a notebook that is opened without a kernel shows in its place."""
        from IPython.display import display

        display({**self._widget_bundle(), "text/plain": NEEDS_A_KERNEL}, raw=True)
        stand_in = self._stand_in()  # what takes a moment comes after the panel is there
        if not stand_in:
            return
        known = uuid4().hex if self._saved is None else self._saved.display_id
        self._saved = display(saved(stand_in), raw=True, display_id=known)

    def save_again(self) -> None:
        """What stands in is another now."""
        if self._saved is not None:
            self._saved.update(saved(self._stand_in()), raw=True)


def saved(stand_in: dict[str, Any]) -> dict[str, str]:
    """The output that a saved notebook shows in place of the panel.

    >>> saved({"text/plain": "Profile", "text/html": "<b>Profile</b>"})["text/plain"]
    'Profile'
    """
    html = f"{_SHOWS_ONE}<div data-accel-saved>{stand_in['text/html']}</div>"
    return {"text/plain": stand_in["text/plain"], "text/html": html}
