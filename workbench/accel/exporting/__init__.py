"""A plan as plain PyTorch: what was measured, without a dependency on accel.

export.py          Export: code, diff and notes; export_cell
cell_rewriter.py   which lines go where
in_place.py        short forms: an argument of a constructor, a `with` round a call
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.exporting.cell_rewriter import Note as Note
    from accel.exporting.export import Export as Export
    from accel.exporting.export import export_cell as export_cell

_HOME = {"Export": "export", "Note": "cell_rewriter", "export_cell": "export"}
__all__ = ["Export", "Note", "export_cell"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
