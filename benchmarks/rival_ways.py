"""The ways to train one model that `python -m benchmarks.rivals` compares: lines added to the plain cell, and its clock.

Nothing of accel is imported here: the ways are clocked in processes that know only torch and the library.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.clock_cells import LOOP

UNTIMED = 2  # runs: compiling and first touches; the loss is read in the first
LOSSES = 20

WORKERS = """
from lightning.fabric.utilities.data import suggested_max_num_workers
shuffle = isinstance(loader.sampler, torch.utils.data.RandomSampler)
workers = suggested_max_num_workers(1)
loader = DataLoader(loader.dataset, loader.batch_size, shuffle, num_workers=workers, persistent_workers=True)
"""
LIGHTNING = """
import lightning
class Training(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model
    def training_step(self, batch, number):
        x, y = batch
        return criterion(self.model(x), y)
    def configure_optimizers(self):
        return optimizer
class Epochs(lightning.Callback):
    def on_train_epoch_end(self, trainer, training):
        trainer.should_stop = ran()
training = Training()
trainer = lightning.Trainer(
    accelerator="cpu", devices=1, precision="{precision}", max_epochs=-1, callbacks=[Epochs()],
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="{precision}", cpu=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
"""


@dataclass(frozen=True)
class Way:
    """Lines after the setup, and the cell that trains: an epoch each time it is run, or as many as `ran()` lets it."""

    more_setup: str = ""
    cell: str = LOOP
    calls_ran: bool = False


def _lightning(precision: str, more: str = "") -> Way:
    return Way(more + LIGHTNING.format(precision=precision), "trainer.fit(training, loader)", calls_ran=True)


def _accelerate(precision: str) -> Way:
    loop = LOOP.replace("loss.backward()", "accelerator.backward(loss)")
    return Way(ACCELERATE.format(precision=precision), loop)


RIVALS = {
    "compile": Way("model = torch.compile(model)\n"),
    "lightning": _lightning("bf16-mixed", WORKERS),
    "lightning_own_loader": _lightning("bf16-mixed"),
    "lightning_fp32": _lightning("32-true"),
    "accelerate": _accelerate("bf16"),
    "accelerate_fp32": _accelerate("no"),
}


class Runs:
    """Times of the runs of a cell, an epoch each, and its first losses."""

    def __init__(self, seconds: float, criterion: Any) -> None:
        self.times: list[float] = []
        self.losses: list[Any] = []
        self._seconds = seconds
        self._hook = criterion.register_forward_hook(self._keep_loss)
        self._began = time.perf_counter()

    def _keep_loss(self, criterion: Any, given: Any, loss: Any) -> None:
        if len(self.losses) < LOSSES:
            self.losses.append(loss.detach())

    def ran(self) -> bool:
        """A run is over; whether it was the last one."""
        self.times.append(time.perf_counter() - self._began)
        self._hook.remove()
        self._began = time.perf_counter()
        return self.is_over

    @property
    def is_over(self) -> bool:
        return len(self.times) > UNTIMED and sum(self.times[UNTIMED:]) >= self._seconds


def clocked(setup: str, way: Way, seconds: float) -> dict[str, Any]:
    """Run the way in this process: a step's time, what the untimed runs took longer, and the mean of the first losses."""
    import torch

    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(setup + way.more_setup, "<setup>", "exec"), namespace)
    code = compile(way.cell, "<cell>", "exec")
    steps = len(namespace["loader"])
    torch.manual_seed(1)  # all ways read the same batches, where the library leaves their order alone
    runs = Runs(seconds, namespace["criterion"])
    namespace["ran"] = runs.ran
    while not runs.is_over:
        exec(code, namespace)
        if not way.calls_ran:
            runs.ran()
    later = median(runs.times[UNTIMED:])
    return {
        "step_ms": 1000 * later / steps, "setup_s": sum(runs.times[:UNTIMED]) - UNTIMED * later,
        "loss": torch.stack(runs.losses).mean().item(),
    }  # fmt: skip
