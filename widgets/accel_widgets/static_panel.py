"""What stands in for the panel where no widget is shown: a saved notebook, an export, a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import Markup, block, note, text

if TYPE_CHECKING:
    from accel.workbench import Workbench

FOR_A_SAVED_NOTEBOOK = "How the workbench stood when the panel was opened: all there is without a kernel"
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


def folded(html: str) -> str:
    """The same behind a line that opens it.

    JupyterLab shows a saved panel as "model not found" and passes over the HTML of the same output: this is one of its own.
    """
    return f"<details><summary>{text(FOR_A_SAVED_NOTEBOOK)}</summary>{html}</details>"
