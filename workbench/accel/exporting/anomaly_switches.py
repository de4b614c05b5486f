"""The lines of a cell that switch autograd's anomaly mode on, made to switch it off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.exporting.cell_tree import CellTree
from accel.exporting.edits import Edits

if TYPE_CHECKING:
    import libcst as cst

_SWITCHES = ("set_detect_anomaly", "detect_anomaly")


def anomaly_switches(tree: CellTree) -> list[cst.Call]:
    """Every call of `set_detect_anomaly` or `detect_anomaly`, however the cell reaches it.

    >>> anomaly_switches(CellTree.parse("with torch.autograd.detect_anomaly():\n    train()"))
    [Call(...)]
    """
    import libcst as cst

    return [
        node for node in tree.parents
        if isinstance(node, cst.Call)
        and (
            (isinstance(node.func, cst.Attribute) and node.func.attr.value in _SWITCHES)
            or (isinstance(node.func, cst.Name) and node.func.value in _SWITCHES)
        )
    ]  # fmt: skip


def switch_anomaly_mode_off(edits: Edits, call: cst.Call) -> None:
    """The call becomes `torch.autograd.set_detect_anomaly(False)`, which is a context manager as well."""
    import libcst as cst

    off = cst.ensure_type(cst.parse_expression("torch.autograd.set_detect_anomaly(False)"), cst.Call)
    edits.change_call(call, lambda _: off)
