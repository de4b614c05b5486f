"""Sums inside 16-bit matrix products on a GPU, themselves in 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.numerics.held_settings import is_held, settings_held, why_not_on
from accel.workload.torch_settings import read_settings

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

_SETTING = "cuda.matmul.allow_{}"


@dataclass(frozen=True)
class ReducedPrecisionReductions:
    """Let cuBLAS add the parts of a 16-bit matrix product up in 16 bits.

    What it does
        Sets `allow_fp16_reduced_precision_reduction` and `allow_bf16_reduced_precision_reduction` of
        `torch.backends.cuda.matmul`: a product that is split over several blocks adds their results in its own format.
        With `accumulation=True` also `allow_fp16_accumulation`, under which float16 products are summed in float16
        from the start.
    When it helps
        Under autocast, or with 16-bit weights, on products with a long inner dimension and few rows. torch allows the
        reductions by default, so they only help where somebody forbade them; `accumulation` it does not: GPUs of the
        GeForce line compute such products at up to twice the rate.
    When it hurts
        float16 overflows at 65504 and loses small addends to large sums: long rows can give infinities. Where losses
        drift or turn to NaN, forbid it. A training in float32 has no such products, and for it nothing changes.
        Not measured here yet.
    In plain PyTorch
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    References
        https://docs.pytorch.org/docs/stable/notes/cuda.html#reduced-precision-reduction-in-fp16-gemms
        https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cuda.matmul.allow_fp16_accumulation
    """

    fp16: bool = True
    bf16: bool = True
    accumulation: bool = False

    name: ClassVar[str] = "reduced_precision_reductions"
    layer: ClassVar[Layer] = "settings"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not (self.fp16 or self.bf16 or self.accumulation):
            because, do = "nothing is left to allow", "Leave one of fp16, bf16 and accumulation at True."
            raise AccelError("reduced_precision_reductions(fp16=False, bf16=False)", because=because, do=do)

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No CUDA GPU, allowed already, or a torch without the setting."""
        reasons, now = why_not_on(workload.objects()), read_settings()
        if missing := [name for name in self._wanted() if name not in now]:
            reasons.append(
                Reason(f"This torch has no {missing[0]}", "Update torch, or write accumulation=False.")
            )
        elif all(_allows(now[name]) and not is_held(name) for name in self._wanted()):
            more = "Write accumulation=True for more, or leave this off."
            do = "Nothing needs to be done." if self.accumulation else more
            reasons.append(Reason("torch allows these reductions already", do))
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the flags for the process; nothing for a replica that is only a part of one."""
        with settings_held(replica, dict.fromkeys(self._wanted(), True)):
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """The flags read back from torch, and whether the models are on a GPU: which sums cuBLAS splits it does not tell."""
        now = read_settings()
        refused = [name for name in self._wanted() if not _allows(now.get(name, False))]
        if refused:
            return Proof(False, f"{refused[0]} is off")
        if replica.device_type != "cuda":
            return Proof(
                False,
                f"the flags are set, but they act on CUDA GPUs, and the model is on {replica.device_type}",
            )
        flags = ", ".join(self._wanted())
        return Proof(
            True,
            f"flags only, read back from torch: cuBLAS is allowed to ({flags}), and does in 16-bit products",
        )

    def as_code(self, workload: Workload) -> str:
        """The flags."""
        lines = [f"torch.backends.{name} = True" for name in self._wanted()]
        return "\n".join(["import torch", "", *lines]) + "\n"

    def _wanted(self) -> list[str]:
        flags = {
            "fp16_reduced_precision_reduction": self.fp16,
            "bf16_reduced_precision_reduction": self.bf16,
            "fp16_accumulation": self.accumulation,
        }
        return [_SETTING.format(flag) for flag, is_wanted in flags.items() if is_wanted]


def _allows(value: Any) -> bool:
    """What a flag says; newer versions of torch keep it together with whether a product may be split."""
    return bool(value[0] if isinstance(value, tuple) else value)
