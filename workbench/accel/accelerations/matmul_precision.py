"""Matrix products and convolutions of float32 numbers on tensor cores, in TF32 or bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.numerics.held_settings import is_held, settings_held

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

# The same settings under the names that they have from torch 2.9 on: put back as well, "none" differs from "ieee" there.
_UNDER_NEW_NAMES = (
    "cuda.matmul.allow_tf32", "cuda.matmul.fp32_precision", "mkldnn.matmul.fp32_precision", "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
)  # fmt: skip


@dataclass(frozen=True)
class MatmulPrecision:
    """Let products of float32 matrices be computed in TF32 (on GPUs) or bfloat16 (on CPUs, with "medium") inside.

    What it does
        `torch.set_float32_matmul_precision`, and TF32 for cuDNN's convolutions where somebody forbade it: torch
        allows that by default, for products it does not. Numbers stay float32 in memory; tensor cores round them as
        they read them, to 10 bits of fraction for TF32, and sum in float32. On GPUs "medium" is the same as "high":
        torch knows no bfloat16 inside float32 products there.
    When it helps
        Training in float32 on GPUs from Ampere on, with large linear layers or attention: their tensor cores stand
        idle for float32. One line, no other change, and every weight stays as it is. Measured on an H200, a
        transformer of 19 million weights in float32, steps of 55 ms: ×2.24 [2.15, 2.34]. On CPUs "medium" lets oneDNN use
        bfloat16, where there is AMX: not measured here yet.
    When it hurts
        Differences of about 1e-3 in each product. Solvers, covariances and losses made of differences of large numbers
        suffer. Under autocast it changes next to nothing, for products are 16-bit there. On CPUs without AMX it does
        nothing but take another path through oneDNN: on an EPYC with avx512_bf16 the products stayed float32.
    In plain PyTorch
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    References
        https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
        https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
        https://github.com/pytorch/pytorch/issues/179445 (old and new names of the setting do not mix)
    """

    precision: Literal["high", "medium"] = "high"

    name: ClassVar[str] = "matmul_precision"
    layer: ClassVar[Layer] = "settings"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No hardware that rounds like that, set already, or set under its new names."""
        import torch

        device, reasons = workload.objects().device_type, []
        if device == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability() < (8, 0):
            reasons.append(
                Reason(
                    "This GPU has no TF32, which came with Ampere",
                    'Use autocast(dtype="fp16"), for which its tensor cores are made, or leave this off.',
                )
            )
        elif device == "cpu" and self.precision == "high":
            reasons.append(
                Reason(
                    "No CPU computes in TF32",
                    'Write precision="medium" where there is AMX, else leave this off.',
                )
            )
        elif device == "cpu" and "amx_bf16" not in machine.isa:
            reasons.append(
                Reason(
                    f"{machine.cpu_model} has no AMX, without which float32 products stay float32",
                    "Leave this off, or train on a GPU from Ampere on.",
                )
            )
        elif device not in ("cpu", "cuda"):
            reasons.append(
                Reason(
                    f"The setting is for CUDA GPUs and CPUs, and the model is on {device}", "Leave it off."
                )
            )
        try:
            now = torch.get_float32_matmul_precision()
        except RuntimeError:  # torch refuses to tell once somebody has used the new names
            reasons.append(
                Reason(
                    "This process has set fp32_precision already, which does not mix with this",
                    'Set torch.backends.cuda.matmul.fp32_precision = "tf32" yourself, or take your setting out.',
                )
            )
        else:
            is_same = now == self.precision or (device == "cuda" and now != "highest")
            if is_same and not is_held("matmul precision"):
                reasons.append(
                    Reason(f'The precision of products is "{now}" already', "Nothing needs to be done.")
                )
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set it for the process; nothing for a replica that is only a part of one."""
        wanted = {"matmul precision": self.precision, "cudnn.allow_tf32": True}
        with settings_held(replica, wanted, beside=_UNDER_NEW_NAMES):
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Multiply numbers that the format cannot hold, and look what became of them."""
        import torch

        device = replica.device_type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            kept = [_survives(device, bits) for bits in (9, 12)]
        if all(kept):
            return Proof(False, f"a product on {device} kept 1 + 2⁻¹², as float32 does")
        rounded = "1 + 2⁻¹² to 1, and 1 + 2⁻⁹ not: TF32" if kept[0] else "1 + 2⁻⁹ to 1: bfloat16"
        return Proof(True, f"a product on {device} rounded {rounded}")

    def as_code(self, workload: Workload) -> str:
        """The two lines."""
        return (
            f'import torch\n\ntorch.set_float32_matmul_precision("{self.precision}")\n'
            "torch.backends.cudnn.allow_tf32 = True\n"
        )


def _survives(device: str, bits: int) -> bool:
    """Whether 1 + 2⁻ᵇⁱᵗˢ comes out of a product with the identity as it went in."""
    import torch

    number = 1 + 2.0**-bits
    given: Any = {"device": device, "dtype": torch.float32}  # whatever the default is
    product = torch.full((256, 256), number, **given) @ torch.eye(256, **given)
    return bool((product == number).all())
