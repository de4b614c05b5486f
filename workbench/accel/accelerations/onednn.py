"""How oneDNN computes in float32, and how many of its compiled operations it keeps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Proof
from accel.accelerations.started import Started
from accel.errors import AccelError, Reason
from accel.processes.start import Start, Variables

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

MODE, CACHE = "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
ROUNDED = 1e-4  # relative error of a convolution: float32 has 1e-6, bfloat16 inside it some 1e-3
NEEDED = {
    "bf16": ("amx_bf16", "bf16"),
    "f16": ("amx_fp16",),
}  # any of these instructions; the second is Arm's


@dataclass(frozen=True)
class Onednn(Started):
    """Let oneDNN round the factors of float32 products to 16 bits, and keep more of its compiled operations.

    What it does
        Starts the process with `ONEDNN_DEFAULT_FPMATH_MODE`: convolutions and products that oneDNN computes read float32,
        multiply in the named format and sum in float32. With `primitives`, also with `ONEDNN_PRIMITIVE_CACHE_CAPACITY`.
    When it helps
        CPUs with AMX, with a cell that you do not want to put under autocast:
        every tensor stays float32. `primitives` where a model meets more than 1,024 shapes again and again.
    When it hurts
        Errors of about 1e-3 in each product. Without AMX nothing changes: on an EPYC with avx512_bf16 a convolution stayed as
        close to the exact one as before.
    In plain PyTorch
        ONEDNN_DEFAULT_FPMATH_MODE=BF16 python train.py
    References
        https://uxlfoundation.github.io/oneDNN/dev_guide_attributes_fpmath_mode.html
        https://uxlfoundation.github.io/oneDNN/dev_guide_primitive_cache.html
    """

    mode: Literal["bf16", "f16", "any", "strict"] | None = "bf16"
    """None: as it is, with `primitives` alone."""
    primitives: int | None = None
    """How many compiled operations are kept (by itself 1,024)."""

    name: ClassVar[str] = "onednn"
    effect: ClassVar[Effect] = "close"

    def __post_init__(self) -> None:
        if self.primitives is not None and self.primitives < 1:
            raise AccelError(
                f"onednn(primitives={self.primitives})",
                because="a cache holds at least one",
                do="Write 1 or more.",
            )

    def start(self) -> Start:
        """With the variables that oneDNN reads once."""
        cache: Variables = ((CACHE, str(self.primitives)),) if self.primitives else ()
        mode: Variables = ((MODE, self.mode.upper()),) if self.mode else ()
        return Start((*mode, *cache))

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No oneDNN, no such instructions, or set already."""
        import torch

        reasons = []
        if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            reasons.append(Reason("This torch was built without oneDNN", "Leave it off."))
        if (needed := NEEDED.get(self.mode or "")) and not set(needed) & set(machine.isa):
            reasons.append(
                Reason(
                    f"This processor has no {needed[0]}: nothing would change",
                    "Use autocast, or leave it off.",
                )
            )
        if not self.mode and not self.primitives:
            reasons.append(
                Reason(
                    "Neither a mode nor a number of primitives is given", 'Write for example onednn("bf16").'
                )
            )
        if self.mode and (os.environ.get(MODE) or "strict").upper() == self.mode.upper():
            reasons.append(
                Reason(
                    f"oneDNN computes with {MODE}={self.mode.upper()} here already",
                    "Nothing needs to be done.",
                )
            )
        return reasons

    def took_effect(self, replica: Replica) -> Proof:
        """How far a convolution of float32 lies from the one in float64; nothing tells how many operations are kept."""
        import torch

        if not self.mode:
            told = os.environ.get(CACHE) == str(self.primitives)
            return Proof(
                told, f"started with {CACHE}={os.environ.get(CACHE)}; oneDNN does not tell what it keeps"
            )

        generator = torch.Generator().manual_seed(0)
        images, weights = (
            torch.randn(shape, generator=generator) for shape in ((8, 32, 16, 16), (32, 32, 3, 3))
        )
        with torch.no_grad():
            exact = torch.nn.functional.conv2d(images.double(), weights.double())
            error = float(
                (torch.nn.functional.conv2d(images, weights) - exact).abs().max() / exact.abs().max()
            )
        rounds = error > ROUNDED
        evidence = f"a convolution of float32 lies {error:.0e} from the exact one"
        if self.mode == "strict":
            return Proof(not rounds, evidence)
        return Proof(rounds, f"{evidence}: factors are {'' if rounds else 'not '}rounded to 16 bits")
