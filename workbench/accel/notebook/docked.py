"""What the button in the notebook's toolbar runs in the kernel: the panel, in a pane of its own next to the cells."""

from __future__ import annotations

from functools import partial

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def show() -> None:
    """Display the panel alone, without what a saved notebook shows in its place: a pane is not saved.

    >>> show()
    """
    from IPython import get_ipython
    from IPython.display import display

    import accel_widgets
    from accel.current import current_workbench
    from accel.notebook.extension import load
    from accel.notebook.page_news import toast_if_long

    shell = get_ipython()
    if "accel" not in shell.magics_manager.magics["line"]:
        load(shell)  # as %load_ext does, which greets
        shell.extension_manager.loaded.add("accel")
    bundle = accel_widgets.panel_of(current_workbench(), partial(toast_if_long, shell))._widget_bundle()
    display({WIDGET_VIEW: bundle[WIDGET_VIEW], "text/plain": "The accel panel"}, raw=True)
