"""What stands in for a panel where no widget is shown: a saved notebook, an export, a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.html_parts import Markup, block, note, text

if TYPE_CHECKING:
    from accel.workbench import Workbench

FOR_A_SAVED_NOTEBOOK = "How this stood when it was opened: all there is without a kernel"
NEEDS_A_KERNEL = "A live panel: it needs a notebook with a kernel. How it stood when it was opened follows."
LIVE_ONLY = (
    "This is how the workbench stood when the panel was opened; run the cell again for the live panel."
)


def static_panel(workbench: Workbench) -> dict[str, str]:
    """The profile and the last trial as text and as static HTML.

    >>> static_panel(workbench)["text/plain"]
    """
    results = [workbench.profile_result, workbench.trials[-1].result if workbench.trials else None]
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

    def _stand_in(self) -> dict[str, str]:
        """Text and static HTML; empty where there is nothing yet."""
        return {}

    def _repr_mimebundle_(self, **named: Any) -> dict[str, Any]:
        live = super()._repr_mimebundle_(**named)  # type: ignore[misc]
        return {**(live[0] if isinstance(live, tuple) else live), **self._stand_in()}

    def _ipython_display_(self) -> None:
        """The live panel, and below it, folded, what a notebook that is opened without a kernel can show."""
        from IPython.display import display

        bundle = self._repr_mimebundle_()
        if "text/html" not in bundle:
            display(bundle, raw=True)
            return
        static = {"text/plain": bundle["text/plain"], "text/html": folded(bundle.pop("text/html"))}
        display({**bundle, "text/plain": NEEDS_A_KERNEL}, raw=True)
        display(static, raw=True)


def folded(html: str) -> str:
    """The same behind a line that opens it.

    JupyterLab shows a saved panel as "model not found" and passes over the HTML of the same output: this is one of its own.
    """
    return f"<details><summary>{text(FOR_A_SAVED_NOTEBOOK)}</summary>{html}</details>"
