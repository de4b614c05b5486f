"""One operation of a model, with what it costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpNode:
    """One primitive operation on one batch, forward.

    `op` is ONNX's name where one is known ("Conv"), `aten` is PyTorch's ("conv2d"). `module` is the qualified name of the
    module that ran it, "" for the model itself. `shape` and `dtype` are of the first result; a size that only the data
    tells is a name such as "u0". `parameters` are those that the operation reads. `flops` counts a multiply-add as two;
    `bytes` is each input read once and each output written once; None where no formula is known. `inputs` are the
    indices of the nodes it takes its data from. `self_ms` is measured: the forward self time a step of the node's
    module, where this node is the only one that computes in it.
    """

    index: int
    op: str
    aten: str
    module: str
    module_class: str
    shape: tuple[int | str, ...]
    dtype: str
    parameters: int
    parameter_names: tuple[str, ...]
    flops: int | None
    bytes: int | None
    inputs: tuple[int, ...]
    self_ms: float | None = None

    @property
    def size_text(self) -> str:
        """The shape as it is read: "64×32×28×28"."""
        return "×".join(map(str, self.shape)) or "scalar"
