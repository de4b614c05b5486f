"""Accelerations written where a cell calls its model, when all calls stand there as `output = model(images)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_tree import CellTree
from accel.exporting.edits import Edits
from accel.exporting.holders import can_reach

if TYPE_CHECKING:
    import libcst as cst

# Attributes through which a model could be called, or compiled, unseen; any other leaves its calls as they are.
_CALLS_UNSEEN = {"__call__", "_call_impl", "_wrapped_call_impl", "modules", "named_modules", "compile"}
_KEEPS_DIMENSIONS = {"to", "cuda", "float", "detach", "clone", "contiguous", "requires_grad_"}


@dataclass(frozen=True, eq=False)
class DirectCall:
    """One `output = model(images)`: its line, the call, the name it binds."""

    line: cst.SimpleStatementLine
    call: cst.Call
    target: str


def direct_calls(
    tree: CellTree, name: str, model: object, namespace: dict[str, Any]
) -> list[DirectCall] | None:
    """All calls of a model, or None unless they all are direct ones, on a line of their own, in the cell itself."""
    calls = []
    for use in tree.of(name):
        if use.kind == "binds" and not use.functions:
            continue
        if (
            use.functions
            or use.kind == "reads"
            or (use.kind == "attribute" and _attribute(tree, use.node) in _CALLS_UNSEEN)
        ):
            return None
        if use.kind == "calls":
            direct = _direct_call(tree, use.node)
            if direct is None:
                return None
            calls.append(direct)
    others = {other for other in tree.names_in(tree.module) if other != name}
    if not calls or any(can_reach(namespace.get(other), model, namespace) for other in others):
        return None
    return calls


def returns_one_float32_tensor(tree: CellTree, calls: list[DirectCall], namespace: dict[str, Any]) -> bool:
    """Whether each call's result, as the profiled run left it in the notebook, is a float32 tensor bound only there."""
    import torch

    def is_plain(target: str) -> bool:
        value = namespace.get(target)
        return (
            isinstance(value, torch.Tensor) and value.dtype == torch.float32 and _is_bound_once(tree, target)
        )

    return all(is_plain(call.target) for call in calls)


def four_dimensional_arguments(
    tree: CellTree, call: DirectCall, namespace: dict[str, Any]
) -> list[int] | None:
    """Positions of a call's arguments that are 4-D tensors; None when that cannot be told for one of them."""
    import torch

    positions = []
    for position, argument in enumerate(call.call.args):
        name = _tensor_name(argument)
        value = namespace.get(name) if name else None
        if argument.star or not name or not isinstance(value, torch.Tensor) or not _is_bound_once(tree, name):
            return None
        if value.dim() == 4:
            positions.append(position)
    return positions


def put_under_autocast(edits: Edits, call: DirectCall, *, device: str, dtype: str) -> None:
    """`output = model(images)` runs under autocast, and its output comes back in float32."""
    import libcst as cst

    def change(line: cst.SimpleStatementLine) -> list[Any]:
        block = cst.parse_statement(f'with torch.autocast("{device}", dtype={dtype}):\n    pass\n')
        assert isinstance(block, cst.With)
        body = cst.IndentedBlock(body=[line.with_changes(leading_lines=())])
        return [
            block.with_changes(leading_lines=line.leading_lines, body=body),
            cst.parse_statement(f"{call.target} = {call.target}.float()\n"),
        ]

    edits.change_line(call.line, change)


def pass_channels_last(edits: Edits, call: DirectCall, positions: list[int]) -> None:
    """`model(images)` becomes `model(images.to(memory_format=torch.channels_last))`."""
    edits.change_call(call.call, _with_channels_last(positions))


def _with_channels_last(positions: list[int]) -> Callable[[cst.Call], cst.Call]:
    import libcst as cst

    def converted(value: cst.BaseExpression) -> cst.Call:
        pattern = cst.parse_expression("x.to(memory_format=torch.channels_last)")
        assert isinstance(pattern, cst.Call)
        return pattern.with_deep_changes(cst.ensure_type(pattern.func, cst.Attribute), value=value)

    def change(call: cst.Call) -> cst.Call:
        arguments = [
            argument.with_changes(value=converted(argument.value)) if position in positions else argument
            for position, argument in enumerate(call.args)
        ]
        return call.with_changes(args=arguments)

    return change


def _direct_call(tree: CellTree, name: cst.Name) -> DirectCall | None:
    import libcst as cst

    call = tree.parents[name]
    statement = tree.parents[call]
    line = tree.parents[statement]
    if not isinstance(call, cst.Call) or not isinstance(statement, cst.Assign) or statement.value is not call:
        return None
    target = statement.targets[0].target
    is_alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    if (
        not is_alone
        or len(statement.targets) != 1
        or not isinstance(target, cst.Name)
        or target.value == name.value
    ):
        return None
    return DirectCall(cst.ensure_type(line, cst.SimpleStatementLine), call, target.value)


def _attribute(tree: CellTree, name: cst.Name) -> str:
    import libcst as cst

    return cst.ensure_type(tree.parents[name], cst.Attribute).attr.value


def _tensor_name(argument: cst.Arg) -> str | None:
    """The name of an argument that is a name, or methods of one that keep its dimensions: `images.to(device)`."""
    import libcst as cst

    value = argument.value
    while (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in _KEEPS_DIMENSIONS
    ):
        value = value.func.value
    return value.value if isinstance(value, cst.Name) else None


def _is_bound_once(tree: CellTree, name: str) -> bool:
    return len([use for use in tree.of(name) if use.kind == "binds"]) == 1
