"""Workers that stay warm from test to test: what `%accel try` does in fresh processes, without their start each time.

A product's trial has fresh workers. Tests whose subject is not the life of a process step their cells in these: importing
torch twice a trial would be most of their time. A worker whose cell failed is not kept.
"""

from __future__ import annotations

import os
import threading
from typing import TypeVar

import msgspec

from accel.errors import AccelError
from accel.processes.failure import Failed
from accel.workers.messages import Finish, Finished, Load
from accel.workers.pool import WorkerPool
from accel.workers.worker import Worker

OWN_TO_A_TEST = {"PYTEST_CURRENT_TEST"}
_Message = TypeVar("_Message")


class KeptWorker(Worker):
    """One that takes another workload when its relaunch is over."""

    def __init__(self) -> None:
        super().__init__()
        self._steps_a_cell, self._can_be_kept = False, True
        self._used_by = 0  # the thread of the relaunch that steps it

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a workload, in the environment that a fresh one would have."""
        return self.is_alive and not self._steps_a_cell and _shared(self.environment) == _shared(os.environ)

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        if isinstance(message, Load):
            self._steps_a_cell, self._used_by = True, threading.get_ident()
            is_plain = message.allocator == "as the notebook" and "steady_allocator" not in message.plan
            self._can_be_kept = self._can_be_kept and is_plain  # glibc's thresholds stay as they were set
        super().send(message, blob, descriptor)

    def receive(self, kind: type[_Message], *, timeout_s: float) -> _Message:
        received = super().receive(kind, timeout_s=timeout_s)
        if kind is Finished:
            self._steps_a_cell = False
        return received

    def _failed(self, failed: Failed) -> AccelError:
        self._can_be_kept = False
        return super()._failed(failed)

    def close(self) -> None:
        is_stopped = self._steps_a_cell and self._used_by != threading.get_ident()  # while a step may run
        if is_stopped or not self._can_be_kept or not self.is_alive:
            super().close()
        elif self._steps_a_cell:
            self._steps_a_cell = False
            try:
                self.send(Finish())
                self.receive(Finished, timeout_s=20.0)
            except AccelError:
                super().close()


class KeptWorkers(WorkerPool):
    """Gives the same workers to each relaunch, one after the other."""

    def __init__(self) -> None:
        super().__init__(spares=0)
        self._kept: list[KeptWorker] = []

    @property
    def pids(self) -> set[int]:
        """Their processes, which live on between tests."""
        return {worker.pid for worker in self._kept if worker.is_alive}

    def take(self, count: int) -> list[Worker]:
        for worker in self._kept:
            if not worker.is_idle:
                Worker.close(worker)
        self._kept = [worker for worker in self._kept if worker.is_idle]
        self._kept += [KeptWorker() for _ in range(count - len(self._kept))]
        return list(self._kept[:count])

    def close(self) -> None:
        """Nothing: the session ends them."""

    def end(self) -> None:
        """End all of them."""
        for worker in self._kept:
            Worker.close(worker)


def _shared(environment: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in OWN_TO_A_TEST}


KEPT = KeptWorkers()  # the session's; `kept_workers` of tests/conftest.py hands them to workbenches
