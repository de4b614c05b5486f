"""cuDNN tries its algorithms for each convolution, and keeps the fastest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.numerics.held_settings import is_held, settings_held, why_not_on

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class CudnnBenchmark:
    """Let cuDNN measure its algorithms for each convolution's shapes once, and use the fastest.

    What it does
        Sets `torch.backends.cudnn.benchmark`. The first time that a convolution meets a shape, forward and backward
        each run every algorithm once; what was fastest is remembered for that shape.
    When it helps
        Convolutional nets on a GPU whose batches all have one shape.
    When it hurts
        Every new shape is measured anew: images of varying size, sequences, a smaller last batch
        (`drop_last=True`). The first step takes longer, and algorithms with a large workspace can take memory that was
        just enough. Two runs may choose differently, and then differ in rounding. Nothing changes for models
        without convolutions. On an H200 the course CNN, which waits for its launches, showed no difference: ×0.98
        [0.83, 1.16].
    In plain PyTorch
        torch.backends.cudnn.benchmark = True
    References
        https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.benchmark
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    name: ClassVar[str] = "cudnn_benchmark"
    layer: ClassVar[Layer] = "settings"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No CUDA GPU, no cuDNN, no convolutions, or on already."""
        import torch

        cudnn: Any = torch.backends.cudnn
        replica = workload.objects()
        reasons = why_not_on(replica)
        if not reasons and not (cudnn.is_available() and cudnn.enabled):
            reasons.append(
                Reason(
                    "torch does not use cuDNN here",
                    "Set torch.backends.cudnn.enabled = True, or leave this off.",
                )
            )
        if replica.models and not any(map(_has_convolutions, replica.models.values())):
            reasons.append(
                Reason("No model of the cell has convolutions, which is what this is for", "Leave it off.")
            )
        if cudnn.benchmark and not is_held("cudnn.benchmark"):
            reasons.append(Reason("cuDNN measures its algorithms already", "Nothing needs to be done."))
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set it for the process; nothing for a replica that is only a part of one."""
        with settings_held(replica, {"cudnn.benchmark": True}):
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """The flag read back, and whether convolutions of the cell go through cuDNN."""
        import torch

        cudnn: Any = torch.backends.cudnn
        if not cudnn.benchmark:
            return Proof(False, "torch.backends.cudnn.benchmark is off")
        if not (torch.cuda.is_available() and cudnn.is_available() and cudnn.enabled):
            return Proof(False, "the flag is set, but no convolution here goes through cuDNN")
        on_gpu = [model for model in replica.models.values() if _has_convolutions(model, on="cuda")]
        if replica.models and not on_gpu:
            return Proof(False, "the flag is set, but no model has a convolution on a GPU")
        return Proof(True, f"cuDNN {cudnn.version()} measures its algorithms, read back from torch")

    def as_code(self, workload: Workload) -> str:
        """The flag."""
        return "import torch\n\ntorch.backends.cudnn.benchmark = True\n"


def _has_convolutions(model: torch.nn.Module, on: str = "") -> bool:
    """Whether there is a convolution among its modules, with weights on that kind of device."""
    from torch.nn.modules.conv import _ConvNd

    convolutions = [module for module in model.modules() if isinstance(module, _ConvNd)]
    return any(each.weight.device.type == (on or each.weight.device.type) for each in convolutions)
