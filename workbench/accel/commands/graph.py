"""`%accel graph`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.graph(
        options.model, options.inputs, add=options.add, after=options.after, onnx=options.onnx
    )


COMMAND = Command(
    "graph",
    "show a model as operations with parameters, FLOPs and bytes on each, also with one more layer",
    "%accel graph model --add Linear(256) --after linear1",
    _run,
    (
        Argument(
            "model",
            help="a variable that holds a model (default: the workload's)",
            metavar="MODEL",
            nargs="?",
            completes="variable",
        ),
        Argument(
            "inputs",
            help="a variable with what it is called with (default: shapes as in the profiled cell)",
            metavar="INPUTS",
            nargs="?",
            completes="variable",
        ),
        Argument(
            "--add",
            help="what if this layer were added: Linear(512→256), Linear(256), ReLU, Conv2d(64→64, 3, padding=1)",
            metavar="LAYER",
            default=None,
        ),
        Argument(
            "--after",
            help="the module that the added layer would come after, such as linear1",
            metavar="MODULE",
            default=None,
        ),
        Argument("--onnx", help="also write the model to this file, as ONNX", metavar="FILE", default=None),
        OUT,
    ),
)
