"""What the kernel and a rank say to each other, over the socket pair that the rank inherited.

What a rank sends is typed JSON, like a worker's. Only the answer to a run carries a pickle: the trained state and what the
function returned. The rank is this kernel's own child, on a socket that no other process can open (docs/decisions/0013).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.cells.values_of_ranks import RankValues
from accel.distributed.communication.communication_times import CommunicationTimes
from accel.distributed.first_step.verdict import FirstStepCheck
from accel.processes.child_main import Hello
from accel.processes.failure import Failed
from accel.profiling.compilation import Compilation
from accel.workers.messages import QualityQuestion
from accel.workload.read_backs import ReadBack


class Meet(msgspec.Struct, tag="meet", frozen=True):
    """Kernel → rank: the page that all ranks of the pool share (its descriptor follows)."""

    rank: int
    world_size: int


class RunRequest(msgspec.Struct, tag="run", frozen=True):
    """Kernel → rank: take what follows and run it.

    A "cell" is run in the namespace that was shipped, a "function" is called with its arguments. `trains` makes models, loaders
    and optimizers data-parallel; else the process group alone is there.
    """

    kind: Literal["cell", "function"]
    trains: bool
    source: str
    filename: str
    backend: str
    rendezvous: str  # a file in a folder of this user's alone
    folder: str
    import_path: list[str]
    environment: dict[str, str]
    names: list[str]  # that were shipped
    writes: list[str]  # that the cell binds
    options: RunOptions
    reads_back: list[ReadBack] = []  # lines that make the cell wait, as its profile saw them
    shapes: dict[str, dict[str, list[int]]] = {}  # of the models that were shipped
    question: QualityQuestion | None = None  # which rank 0 answers when the cell has trained
    reference: str = ""  # a file: the first step as one process takes it; empty: nothing is compared with it
    stands_for: int = 0  # of that process: so many ranks compare with it


class RankReady(msgspec.Struct, tag="rank_ready", frozen=True):
    """Rank → kernel: met; these are its CPUs and threads, read back, and the device it would train on."""

    cpus: list[int]
    threads: int
    device: str
    host: str = ""  # where it is, of a job
    stale: str = ""  # why the process must not run another cell: what an earlier one left of it


class RunDone(msgspec.Struct, tag="run_done", frozen=True):
    """Rank → kernel: the run is over; what it returns follows as a pickle with its memory."""

    seconds: float
    first_step_s: (
        float | None
    )  # from the request to the end of the first optimizer step; None where there was none
    notes: list[str]
    left_behind: list[list[str]]  # [name, why it could not be brought back]
    proofs: list[
        tuple[str, bool, str]
    ] = []  # of the plan: (entry, whether it took effect, what was read back)
    compilation: Compilation | None = None
    was_stopped: bool = False
    communication: CommunicationTimes | None = None  # where it was asked for
    backend: str = ""  # that the ranks talked by
    distributes_itself: bool = False  # the cell joined a group or wrapped its model, as for torchrun
    quality: float | None = None
    quality_reason: str = ""  # why there is none, where it was asked for
    values: list[RankValues] = []  # that differ between ranks
    is_clean: bool = True  # nothing of the run is left in the process: it can be used again
    first_step: FirstStepCheck | None = None  # where it was asked for


class StepTaken(msgspec.Struct, tag="step_taken", frozen=True):
    """The process that takes first steps alone → kernel: the child that took this one is over."""


class RunFailed(msgspec.Struct, tag="run_failed", frozen=True):
    """Rank → kernel: the run raised. A communication error is, as a rule, the consequence of what happened on another rank."""

    failed: Failed
    is_communication: bool
    is_clean: bool


ToRank = Meet | RunRequest
FromRank = Hello | RankReady | RunDone | RunFailed | StepTaken
