"""A model as an ONNX file, by torch.onnx.export; needs the packages of the extra `onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accel.errors import AccelError
from accel.workload.model_copy import out_of_sight, reason_of, with_weights

if TYPE_CHECKING:
    from accel.opgraph.origin import Origin


def write_onnx(origin: Origin | None, path: str | Path) -> Path:
    """Export the model in evaluation mode, for the shapes that the graph was read with; returns the path.

    Weights above torch's limit for one file lie beside it. Raises AccelError when a package is missing, the model is gone,
    or torch cannot export it.
    """
    asked = f"Writing {path}"
    _check_packages(asked)
    model = origin.model() if origin is not None else None
    if origin is None or model is None:
        raise AccelError(
            asked, because="the model that the graph was read from is gone, and with it the weights",
            do="Keep the model in a variable and ask for its graph again: accel.graph(model, inputs).to_onnx(path).",
        )  # fmt: skip
    import torch

    args, kwargs = origin.inputs.filled(lambda shape: shape.empty())
    try:
        with out_of_sight():
            program = torch.onnx.export(
                with_weights(model, shared=True), args, kwargs=kwargs, dynamo=True, verbose=False
            )
    except Exception as error:  # torch.onnx raises what torch.export and its own translation raise
        raise AccelError(
            asked,
            because=f"torch.onnx.export cannot translate the model: {reason_of(error)}",
            do="The graph itself needs no ONNX: print it, or use .figure() and .to_dataframe().",
        ) from error
    if program is None:
        raise AccelError(
            asked, because="torch.onnx.export gave no program", do="Update torch and onnxscript."
        )
    program.save(str(path))
    return Path(path)


def _check_packages(asked: str) -> None:
    """torch.onnx names one missing package after the other, and neither the extra."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise AccelError(
            asked, because=f"ONNX export needs the packages onnx and onnxscript, and here is no {error.name}",
            do='Run: pip install "accel-workbench[onnx]"',
        ) from error  # fmt: skip
