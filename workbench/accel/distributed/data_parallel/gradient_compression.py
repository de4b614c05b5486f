"""`--compress`: gradients made smaller before ranks exchange them, by torch's own communication hooks."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from accel.errors import AccelError

if TYPE_CHECKING:
    import torch

_LONGEST_S = 5.0
Kind = Literal["none", "fp16", "bf16", "powersgd"]
PLAIN_PASSES = 10  # exchanged whole before PowerSGD begins: the first steps are the touchiest, and buckets are not final before
_SETTLING_PASSES = 3  # DDP builds its buckets anew in the first ones
_HOOKS = {"fp16": "fp16_compress_hook", "bf16": "bf16_compress_hook"}  # of 16 bits a number


@dataclass(frozen=True)
class Compression:
    """How a bucket of gradients travels; `rank` is that of PowerSGD's matrices.

    >>> compression_of("powersgd:4")
    Compression(kind='powersgd', rank=4)
    """

    kind: Kind = "none"
    rank: int = 1

    def __str__(self) -> str:
        return f"powersgd:{self.rank}" if self.kind == "powersgd" else self.kind

    @property
    def settles_after(self) -> int:
        """So many passes of DDP, then buckets and what is done with them stay as they are."""
        return _SETTLING_PASSES + self.plain_passes

    @property
    def plain_passes(self) -> int:
        """So many passes of DDP are exchanged whole before it begins."""
        return PLAIN_PASSES if self.kind == "powersgd" else 0

    def sender(self) -> Sender:
        """What exchanges the buckets of one model."""
        return Sender(self)

    @property
    def effect(self) -> str:
        """What it does to the training, in a sentence."""
        if self.kind == "powersgd":
            return (
                f"it sends approximations of rank {self.rank} (after {PLAIN_PASSES} passes that are exchanged whole) and "
                "adds what was left out to later gradients: this is another training, so compare its losses with those of a run "
                "without it"
            )
        more = ", and those above 65,504 overflow" if self.kind == "fp16" else ""
        return (
            f"gradients keep {11 if self.kind == 'fp16' else 8} binary digits{more}: parameters are close to those of a run "
            "without it, not the same"
        )


def compression_of(asked: str) -> Compression:
    """Read what was asked for: none, fp16, bf16, powersgd or powersgd:RANK. Raises AccelError.

    >>> compression_of("bf16").kind
    'bf16'
    """
    kind, colon, rank = asked.partition(":")
    if kind == "powersgd" and (not colon or (rank.isdecimal() and int(rank) > 0)):
        return Compression("powersgd", int(rank or 1))
    if kind in ("none", "fp16", "bf16") and not colon:
        return Compression(kind)  # type: ignore[arg-type]
    because = (
        f"the rank of PowerSGD's matrices is a whole number from 1 on, not {rank!r}"
        if kind == "powersgd"
        else "gradients can be sent as none (as they are), fp16, bf16, powersgd or powersgd:RANK"
    )
    raise AccelError(
        f"--compress {asked}", because=because, do="Use for example --compress bf16, or powersgd:4."
    )


class Sender:
    """Averages buckets of one model over all ranks, compressed or not.

    >>> future, sent_bytes = compression_of("fp16").sender().send(bucket)

    `is_in_turn`: each bucket is exchanged to its end before the next begins. PowerSGD's second and third messages of a bucket are
    sent by callbacks; over gloo these run in threads of its own, and with two buckets on their way ranks would send in different
    orders.
    """

    def __init__(self, how: Compression) -> None:
        import torch.distributed as dist
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks

        self._how, self.is_in_turn = how, False
        self._state: Any = None
        self._hook: Any = getattr(hooks, _HOOKS.get(how.kind, "allreduce_hook"))
        if how.kind == "powersgd":
            from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState

            self._state = PowerSGDState(None, how.rank, start_powerSGD_iter=PLAIN_PASSES)
            self.is_in_turn = dist.get_backend() == "gloo"

    def send(self, bucket: Any) -> tuple[torch.futures.Future[torch.Tensor], int]:
        """Begin the exchange; gives its future, and how many bytes of this rank travel."""
        tensor = bucket.buffer()
        whole = tensor.numel() * tensor.element_size()
        if self._state is not None:
            return self._approximated(bucket, whole)
        return self._hook(None, bucket), tensor.numel() * 2 if self._how.kind in _HOOKS else whole

    def _approximated(self, bucket: Any, whole: int) -> tuple[torch.futures.Future[torch.Tensor], int]:
        import torch
        from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import powerSGD_hook

        tensor = bucket.buffer()
        if tensor.device.type == "cpu" and torch.cuda.is_available():
            raise AccelError(
                f"--compress {self._how}",
                because="torch's PowerSGD waits for a GPU wherever there is one, and these gradients are on the CPU",
                do="Use --compress bf16, or hide the GPUs: CUDA_VISIBLE_DEVICES= before the notebook starts.",
            )
        before, references = self._state.total_numel_after_compression, sys.getrefcount(self._state)
        future = powerSGD_hook(self._state, bucket)
        if self.is_in_turn:
            future.wait()
            self._wait_until_let_go(references)
        numbers = self._state.total_numel_after_compression - before
        return future, numbers * tensor.element_size() or whole

    def _wait_until_let_go(self, references: int) -> None:
        """Until gloo's thread has thrown torch's callbacks away, which hold the process group as well as the state.

        If theirs were the group's last reference, that thread would take it down, wait for its own end, and abort the process.
        """
        deadline = time.monotonic() + _LONGEST_S
        while sys.getrefcount(self._state) > references and time.monotonic() < deadline:
            time.sleep(1e-5)  # lets it have the interpreter
