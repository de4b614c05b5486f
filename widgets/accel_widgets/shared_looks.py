"""Small widgets share their layout and style, so that a panel is few messages.

ipywidgets gives every widget two models more, for a layout and a style of its own, and each model is a message. A kernel's socket
drops what comes beyond 1,000 that nobody has fetched yet: a panel of many such widgets never appears on a busy machine, or
its cell never ends, and nothing says so.
"""

from __future__ import annotations

from typing import Any, TypeVar

import ipywidgets

Kind = TypeVar("Kind", bound=ipywidgets.DOMWidget)
_shared: dict[type, ipywidgets.Widget] = {}


def shared(kind: type[Kind], *given: Any, classes: str = "", **traits: Any) -> Kind:
    """A widget with the layout and the style that all of its kind share, and with these CSS classes.

    >>> shared(ipywidgets.HTML, "text", classes="accel-layer")
    """
    return kind(*given, **{**looks(kind, classes), **traits})


def looks(kind: type[ipywidgets.DOMWidget], classes: str = "") -> dict[str, Any]:
    """The same as keywords, for a class that inherits from `kind`.

    >>> super().__init__(children, **looks(ipywidgets.HBox, "accel-toggle-row"))
    """
    traits: dict[str, Any] = {"layout": _one(ipywidgets.Layout), "_dom_classes": tuple(classes.split())}
    if (style := kind.class_traits().get("style")) is not None:
        traits["style"] = _one(style.klass)
    return traits


def _one(kind: type[ipywidgets.Widget]) -> ipywidgets.Widget:
    """The one of its kind; a new one where `Widget.close_all()` has ended it."""
    known = _shared.get(kind)
    if known is None or known.comm is None:
        known = _shared[kind] = kind()
    return known
