"""Which model `%accel graph` means, what it is called with, and how long its modules were measured to take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, UnknownName
from accel.opgraph.read_graph import read_graph
from accel.workload.model_copy import unwrapped
from accel.workload.module_names import module_path

if TYPE_CHECKING:
    import torch

    from accel.opgraph.op_graph import OpGraph
    from accel.workbench.notebook_state import NotebookState
    from accel.workload.call_inputs import CallInputs

DO = (
    "Give what it is called with, a batch or a shape: %accel graph model images, or accel.graph(model, (64, 1, 28, 28)); "
    "or put %%accel profile over the cell that trains it."
)


def read_workbench_graph(workbench: NotebookState, model: Any, inputs: Any) -> OpGraph:
    """The graph of a model, or of the workload's; a name stands for the variable.

    Without inputs, the shapes count that the profiled cell called the model with: no loader and no random number is
    touched. The measured times of the last profile are put in then.
    """
    found = _model(workbench, model)
    if inputs is not None:
        return read_graph(found, _variable(workbench, inputs) if isinstance(inputs, str) else inputs)
    graph = read_graph(found, _recorded_inputs(workbench, found))
    measured = _measured_ms(workbench, found)
    return graph.with_times(measured) if measured else graph


def _model(workbench: NotebookState, model: Any) -> torch.nn.Module:
    from torch import nn

    if model is None:
        models = workbench.workload.objects().models if workbench.workload is not None else {}
        if not models:
            raise AccelError(
                "%accel graph", because="no model is named, and no profiled cell trains one", do=DO
            )
        return next(iter(models.values()))
    found = _variable(workbench, model) if isinstance(model, str) else model
    if not isinstance(found, nn.Module):
        raise AccelError(
            "%accel graph",
            because=f"{_short(model)} is of class {type(found).__name__}, not a model (torch.nn.Module)",
            do=DO,
        )
    return found


def _variable(workbench: NotebookState, name: str) -> Any:
    """The object of a name such as "model" or "trainer.model"."""
    from accel.workload.workload import look_up

    for role in workbench.workload.roles if workbench.workload is not None else ():
        if role.name == name and (current := role.current(workbench.namespace)) is not None:
            return current
    found = look_up(workbench.namespace, name)
    if found is None:
        raise UnknownName(
            "variable", name, [known for known in workbench.namespace if not known.startswith("_")]
        )
    return found


def _recorded_inputs(workbench: NotebookState, model: torch.nn.Module) -> CallInputs:
    workload = workbench.workload
    for role in workload.roles if workload is not None else ():
        if role.inputs is not None and role.kind == "models" and role.current(workbench.namespace) is model:
            return role.inputs
    raise AccelError(
        f"The graph of {type(model).__name__}",
        because="no profiled cell called it, so that its inputs are not known",
        do=DO,
    )


def _measured_ms(workbench: NotebookState, model: torch.nn.Module) -> dict[str, float]:
    """Forward self time of each module's own operations per step; with several models the names could be either's."""
    profile, workload = workbench.profile_result, workbench.workload
    models = (
        {id(unwrapped(each)) for each in workload.objects().models.values()}
        if workload is not None
        else set()
    )
    measured: dict[str, float] = {}
    if profile is None or models != {id(unwrapped(model))}:
        return measured
    for row in profile.rows:
        if row.phase == "forward" and row.module:
            path = module_path(row.module)
            measured[path] = measured.get(path, 0.0) + row.self_ms
    return measured


def _short(value: object) -> str:
    words = value if isinstance(value, str) else repr(value)
    return words if len(words) <= 40 else f"{words[:37]}..."
