"""A worker: a fresh interpreter that imports torch, takes a workload, and steps it by tokens.

    python -m accel.workers.worker_main <descriptor of its end of a socket pair> <pid of the kernel> <1: import idly>

It begins as every child does (processes/child_main.py). What the cell writes goes to its folder.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from accel.errors import AccelError, first_line
from accel.private_disk import PrivateDisk
from accel.processes.channel import Channel, Closed
from accel.processes.child_main import begin, import_torch, say_hello
from accel.processes.failure import failure_of
from accel.processes.kernel_folder import own_folder
from accel.profiling.compile_watch import CompileWatch
from accel.workers.found_objects import FoundObjects, in_use
from accel.workers.messages import EffectRead, Finished, Load, Loaded, ToWorker
from accel.workers.step_gate import CellIsOver, StepGate
from accel.workload.notebook_module import give_display

if TYPE_CHECKING:
    from accel.plans.plan import Plan
    from accel.workload.replica import Replica

PROFILES = "profile"  # in a cell that runs torch's profiler itself, of which there can be one at a time
RunBegins = Callable[[], None]
Context = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Calls:
    """What whoever is round a workload wants to hear of: a run of the cell begins; quality is measured, in this context."""

    run_begins: RunBegins = lambda: None
    evaluation: Context = contextlib.nullcontext


Around = Callable[[Load, "Plan", dict[str, Any]], AbstractContextManager[Calls]]
FailureMessage = Callable[[BaseException, str], msgspec.Struct]


def _alone(load: Load, plan: Plan, namespace: dict[str, Any]) -> AbstractContextManager[Calls]:
    """A worker that trains by itself."""
    return contextlib.nullcontext(Calls())


def main(descriptor: int, kernel_pid: int, in_background: bool) -> None:
    disk = PrivateDisk(own_folder())  # first of all: while there is one thread
    channel = begin(descriptor, kernel_pid, ToWorker)
    import_torch(in_background)
    say_hello(channel)
    with contextlib.suppress(Closed):
        serve(channel, disk)


def serve(
    channel: Channel,
    disk: PrivateDisk,
    *,
    around: Around = _alone,
    failure_message: FailureMessage = failure_of,
) -> NoReturn:
    """Take workloads and step them until the kernel is gone, which raises Closed.

    `around` is entered round each, before the plan is applied, and gives what is to be called. `failure_message`
    makes a message of what it raises. Files that the cell writes go to the private disk, which is entered when the first
    workload comes.
    """
    while True:
        message, blob, memory = channel.receive()
        if isinstance(message, Load) and memory is not None:
            _run(channel, disk, message, blob, memory, around, failure_message)


def _run(
    channel: Channel,
    disk: PrivateDisk,
    load: Load,
    blob: bytes,
    descriptor: int,
    around: Around,
    failure_message: FailureMessage,
) -> None:
    try:
        _step_through(channel, disk, load, blob, descriptor, around)
    except CellIsOver:
        channel.send(Finished())
    except Closed:
        raise
    except BaseException as error:
        channel.send(failure_message(error, load.filename))


def _step_through(
    channel: Channel, disk: PrivateDisk, load: Load, blob: bytes, descriptor: int, around: Around
) -> None:
    from accel.plans.plan import Plan
    from accel.profiling.peak_memory import PeakMemory
    from accel.workers.evaluating import Evaluator
    from accel.workload.cell_code import compiled
    from accel.workload.discovery import Discovery
    from accel.workload.training_code import as_changed

    namespace = _arrived(disk, load, blob, descriptor)
    peak = PeakMemory(load.trains_on, counts_tensors=PROFILES not in load.source)
    linecache.cache[load.filename] = (len(load.source), None, load.source.splitlines(True), load.filename)
    replica = _replica_at_start(load, namespace)
    plan = Plan.parse(load.plan)
    with contextlib.ExitStack() as applied:
        calls = applied.enter_context(around(load, plan, namespace))
        applied.enter_context(plan.apply(replica))
        presented = [replica]
        found = FoundObjects(plan, presented, partial(_prepare, load))
        without_discovery: Any = contextlib.nullcontext
        if load.finds_objects:
            applied.enter_context(found.taken_back())
            known = [*replica.models.values(), *replica.optimizers.values(), *replica.loaders.values()]
            without_discovery = applied.enter_context(Discovery(found.take, known)).paused
        watch = applied.enter_context(CompileWatch())

        def read_effect() -> EffectRead:
            return EffectRead(
                _proofs(plan, in_use(presented, namespace)),
                watch.found(),
                peak.resident_bytes,
                peak.tensor_bytes,
            )

        channel.send(Loaded(disk.mechanism or ""))
        evaluate = None
        if load.quality is not None:
            apart = partial(_both, without_discovery, calls.evaluation)
            evaluate = Evaluator(load.quality, namespace, presented, load.filename, around=apart)
        tree = as_changed(ast.parse(load.source, load.filename))
        code = compiled(tree, load.filename)
        with StepGate(
            channel, boundary=load.boundary, read_effect=read_effect, evaluate=evaluate,
            samples_per_batch=load.samples_per_batch, device=load.trains_on, memory=peak.tensors,
        ) as gate:  # fmt: skip
            _run_again_and_again(gate, load, code, namespace, found, calls.run_begins)


def _replica_at_start(load: Load, namespace: dict[str, Any]) -> Replica:
    """The cell's objects as this worker is to begin with them: perturbed, or from a seed. No plan is applied to them yet."""
    from accel.workload.new_weights import give_new_weights, seed_generators
    from accel.workload.replica import Replica
    from accel.workload.training_code import training_codes
    from accel.workload.workload import look_up

    roles: dict[str, Any] = {
        kind: {name: look_up(namespace, name) for name in names} for kind, names in load.roles.items()
    }
    codes = training_codes(namespace, list(namespace), load.filename, load.source, load.reads_back)
    replica = Replica(**roles, codes=codes, trains_on=load.trains_on)
    if load.perturb:
        _perturb(replica)
    if load.quality is not None:
        seed_generators(replica, load.quality.seed)
        if load.quality.start == "new":
            give_new_weights(replica)  # before the plan: what it prunes, it chooses by weights
    return replica


def _arrived(disk: PrivateDisk, load: Load, blob: bytes, descriptor: int) -> dict[str, Any]:
    """What was shipped, where the notebook is, on a disk of this process's own."""
    from accel.accelerations.steady_allocator import allocate_as
    from accel.workload.memory_file import MemoryFile
    from accel.workload.shipping import unpack

    os.chdir(load.folder)
    disk.enter("A trial", "Move that line to a cell of its own and profile this one again.")
    sys.path[:] = [*sys.path, *load.import_path] if load.keeps_path else load.import_path
    allocate_as(load.allocator)
    memory = MemoryFile(descriptor)
    try:
        namespace = unpack(blob, memory)
    except (
        Exception
    ) as error:  # whatever another version of a library stumbles over; in our own it is a fault of ours
        if not load.keeps_path or isinstance(error, AccelError):
            raise
        raise _cannot_cross(error) from error
    finally:
        memory.close()
    give_display(namespace)
    return namespace


def _cannot_cross(error: Exception) -> AccelError:
    import torch

    return AccelError(
        f"Running the cell on torch {torch.__version__}",
        because=f"something that it uses cannot be put together there: {first_line(error)}",
        do="Build that object in the cell itself. For a compiled model: call model.compile() in the cell.",
    )


@contextlib.contextmanager
def _both(first: Context, second: Context) -> Iterator[None]:
    with first(), second():
        yield


def _run_again_and_again(
    gate: StepGate, load: Load, code: types.CodeType, namespace: dict[str, Any], found: FoundObjects,
    run_begins: RunBegins,
) -> None:  # fmt: skip
    from accel.workload.cell_code import run_code

    gate.wait()
    while True:
        before = gate.steps_done
        found.run_begins()
        run_begins()
        gate.cell_begins()
        run_code(code, namespace=namespace)
        if gate.is_over:
            raise CellIsOver  # a bare `except` in the cell swallowed it
        if gate.steps_done == before:
            raise AccelError(
                "Running the cell again",
                because="the cell ended without a single training step, and a trial runs it many times",
                do="Build in the cell itself what one run uses up (an iterator, a Trainer that counts its epochs), profile it "
                "and try again.",
            )
        if load.quality is not None and not load.quality.repeats:
            gate.cell_ended()


def _proofs(plan: Any, presented: list[Any]) -> list[tuple[str, bool, str]]:
    """Read each entry back on everything it was given: it took effect if it did so somewhere and nowhere failed to."""
    from accel.workload.replica import merged

    return [(name, proof.took_effect, proof.evidence) for name, proof in plan.proofs(merged(presented))]


def _prepare(load: Load, found: Any) -> None:
    found.trains_on = load.trains_on
    if load.perturb:
        _perturb(found)


def _perturb(replica: Any) -> None:
    """Move every parameter by about one unit in its last place: what another order of summation would do."""
    import torch

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for model in replica.models.values():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    signs = torch.randint(0, 2, parameter.shape, generator=generator).to(parameter) * 2 - 1
                    parameter.mul_(1 + signs * torch.finfo(parameter.dtype).eps)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1")
