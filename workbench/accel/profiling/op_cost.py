"""FLOPs and bytes of operations, from their input shapes (`--shapes`)."""

from __future__ import annotations

from dataclasses import dataclass

METHOD = "formulas on the recorded shapes of eager operations; a multiply-add counts as two"


@dataclass(frozen=True)
class OpCost:
    """What one operation computes and moves, per step, in one phase and module and with one set of input shapes.

    `flops` counts a multiply-add as two; None where no formula is known. `bytes` is each input read once and each output
    written once: the least the operation can move. `self_ms` is the same self time that the operation's row has,
    `device_ms` the time of the kernels it launched on `device`. An operation that only calls others has 0 of both.
    """

    op: str
    phase: str
    module: str
    shapes: str  # "[64, 1, 28, 28] × [32, 1, 3, 3]"
    dtype: str  # of the first tensor: "float32"
    calls: float
    self_ms: float
    flops: float | None
    bytes: float | None
    device: str = "cpu"
    device_ms: float = 0.0

    @property
    def ms(self) -> float:
        """Time of the work itself: on the device where it ran there, else on the CPU."""
        return self.device_ms if self.device != "cpu" else self.self_ms
