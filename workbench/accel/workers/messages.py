"""What the kernel and its workers say to each other, over a child's channel (processes/channel.py)."""

from __future__ import annotations

import msgspec

from accel.processes.child_main import Hello
from accel.processes.failure import Failed
from accel.profiling.compilation import Compilation
from accel.workload.read_backs import ReadBack


class QualityQuestion(msgspec.Struct, frozen=True):
    """How a worker tells the quality of what it trains, and from which weights it starts.

    `metric` is "accuracy" or "loss", or a function of the namespace that takes so many `arguments` (of model, loader).
    """

    metric: str
    is_built_in: bool
    arguments: int
    held_out: str
    model: str
    model_class: str
    criterion: str
    training_loader: str
    seed: int  # of all random numbers
    start: str  # "same": from the weights as they are in the notebook; "new": from new ones
    repeats: bool  # False: the cell builds its model itself, so that a second run of it would begin anew


class Load(msgspec.Struct, tag="load", frozen=True):
    """Kernel → worker: take this workload (the pickle follows), apply this plan, wait at the first step."""

    plan: str
    allocator: str  # as `notebook_allocator` says it
    source: str
    filename: str
    boundary: str
    folder: str
    import_path: list[str]
    roles: dict[str, list[str]]
    finds_objects: bool
    trains_on: str = ""  # the device of the workload's models
    samples_per_batch: int = 0  # what a backward pass counts where no DataLoader is seen to give batches
    reads_back: list[ReadBack] = []  # by the cell and its functions, where that makes them wait
    epoch_steps: int = 0  # in a pass over the training's loader, as far as the cell reads it; 0 if unknown
    pass_steps: int = 0  # in a full pass; estimated if the loader no longer exists
    makes_ahead: bool = False  # the training's loader makes batches in the background
    has_threads: bool = False  # a thread that the cell started reads a loader
    loader_workers: int = 0  # its worker processes
    perturb: bool = False
    quality: QualityQuestion | None = None
    keeps_path: bool = (
        False  # the worker has an interpreter of its own: `import_path` comes behind its own folders
    )


class StepToken(msgspec.Struct, tag="steps", frozen=True):
    """Kernel → worker: a token for so many steps, of which the first ones do not count."""

    count: int
    settle: int = 0
    watches_memory: bool = False  # steps that are not timed, in which what tensors hold is counted


class ReadEffect(msgspec.Struct, tag="read_effect", frozen=True):
    """Kernel → worker: say whether the plan took effect."""


class Evaluate(msgspec.Struct, tag="evaluate", frozen=True):
    """Kernel → worker: say how good the model is now, on held-out data; training waits for the answer."""


class Finish(msgspec.Struct, tag="finish", frozen=True):
    """Kernel → worker: leave the cell; the worker is free for another workload."""


class Loaded(msgspec.Struct, tag="loaded", frozen=True):
    """Worker → kernel: the workload is there and the plan applied; the cell has not begun."""

    disk: str = ""  # what keeps the cell's writes from the user's files


class StepsDone(msgspec.Struct, tag="steps_done", frozen=True):
    """Worker → kernel: the steps of one token. Lists have one entry a step; a loss is NaN where none was seen."""

    wall_ns: list[int]
    losses: list[float | None]
    samples: list[int]  # that each step trained on; 0 where nothing tells
    minor_faults: int
    cell_ended: bool = (
        False  # the cell is over and is not run again: there may be fewer steps than were asked for
    )
    apart_ns: list[int] = []  # applying the plan to what the cell built: not in `wall_ns`


class Evaluated(msgspec.Struct, tag="evaluated", frozen=True):
    """Worker → kernel: the metric's value, None where it is not a number (NaN); the cell may not have made its model yet."""

    value: float | None
    seconds: float
    has_model: bool = True


class EffectRead(msgspec.Struct, tag="effect_read", frozen=True):
    """Worker → kernel: one (acceleration, took effect, evidence) for each entry, and what torch.compile did so far."""

    proofs: list[tuple[str, bool, str]]
    compilation: Compilation | None = None
    resident_bytes: int = 0  # of the process, at the most since the workload came; 0 where nothing tells
    tensor_bytes: int = 0  # that tensors held at the most; 0 where it was not counted


class Finished(msgspec.Struct, tag="finished", frozen=True):
    """Worker → kernel: out of the cell."""


ToWorker = Load | StepToken | Evaluate | ReadEffect | Finish
FromWorker = Hello | Loaded | StepsDone | Evaluated | EffectRead | Finished | Failed
