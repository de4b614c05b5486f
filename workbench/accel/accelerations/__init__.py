"""The catalogue: one file = one frozen dataclass, whose fields are its knobs and whose docstring is its card.

accel.accelerations()           what there is; once a cell was profiled, what can work on it and what cannot
accel.accelerations.CATALOGUE   the entries themselves

    acceleration.py    the Protocol that every entry satisfies, and Proof
    plan.py            Plan: several entries together; parses and prints `autocast(dtype="bf16")+channels_last`
    knobs.py           the knobs of an entry, for controls, completion and checking
    model_call.py      wraps a model's call in place: autocast, channels_last and compile_model are made of it
    held_settings.py   settings of torch that are changed for the process, and put back
    compiled_code.py   what torch.compile made, kept with the object it is for; compiled_step.py for optimizers
    compile_backends.py  the backends of torch.compile: which can be used here, and why not
    tensor_layout.py   memory layout of weights, gradients and optimizer state, changed together
    loss_scaling.py    loss scaling for float16, in plain PyTorch: exported code carries it
    graphless_calls.py  calls in eval mode without a graph, in plain PyTorch: exported code carries it
    loader_iterators.py  changes what a loader's iterators do, in place: workers, pinned memory and prefetching are made of it
    dataset_transforms.py, sample_probe.py  a data set's transforms, and which of them are random, found by reading a few samples
    own_generators.py  random number generators that a transform or data set holds: they decide, and are put back
    samples_to_keep.py, transforms_of_a_batch.py  what of a data set can be kept, or applied to a batch; remembered_probes.py
    deferred_read.py, deferred_code.py  lines of a loop whose number can wait, and the code without the wait
    plain_source.py    the source of a module without accel, for a user's cell: what is applied and what is exported are the same
    sharded_model.py, sharded_optimizer.py  parameters and optimizer states spread over ranks, in place, and put together again
    whole_numbers.py   `.item()` of a tensor that is spread over ranks is that of the whole one
    autograd_nodes.py, optimizer_updates.py  what really ran: read from the results, and counted in the steps
    other_tools.py     tools of other makers, and what serves in their place
    user_names.py      what the user calls the objects that code is written for
    cards.py           a card: an entry's docstring, by its headings

To add one, take the four steps in CONTRIBUTING.md.
"""

from __future__ import annotations

import sys
from types import ModuleType

from accel.accelerations.acceleration import CARD_HEADINGS, Acceleration, Proof
from accel.accelerations.activation_checkpointing import ActivationCheckpointing
from accel.accelerations.async_metrics import AsyncMetrics
from accel.accelerations.autocast import Autocast
from accel.accelerations.batch_size import BatchSize
from accel.accelerations.batched_transforms import BatchedTransforms
from accel.accelerations.bias_off import BiasOff
from accel.accelerations.cache_dataset import CacheDataset
from accel.accelerations.channels_last import ChannelsLast
from accel.accelerations.compile_model import CompileModel
from accel.accelerations.compile_optimizer import CompileOptimizer
from accel.accelerations.cudnn_benchmark import CudnnBenchmark
from accel.accelerations.ddp import Ddp
from accel.accelerations.detect_anomaly_off import DetectAnomalyOff
from accel.accelerations.fully_shard import FullyShard
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.accelerations.gradient_accumulation import GradientAccumulation
from accel.accelerations.intraop_threads import IntraopThreads
from accel.accelerations.loader_workers import LoaderWorkers
from accel.accelerations.matmul_precision import MatmulPrecision
from accel.accelerations.no_grad_validation import NoGradValidation
from accel.accelerations.other_tools import instead_of
from accel.accelerations.pin_memory import PinMemory
from accel.accelerations.prefetch_to_device import PrefetchToDevice
from accel.accelerations.prune import Prune
from accel.accelerations.reduced_precision_reductions import ReducedPrecisionReductions
from accel.accelerations.set_to_none import SetToNone
from accel.accelerations.steady_allocator import SteadyAllocator
from accel.errors import UnknownName

# In the order they are applied: the process first; the data; the model's own modules, which what comes after must see; then
# from the inside of the model's call outwards (autocast is entered round the compiled call, and pruning has changed the model
# before any of them sees it); last the optimizer, which needs the weights in their final layout.
CATALOGUE: tuple[type[Acceleration], ...] = (
    # the process
    SteadyAllocator,
    IntraopThreads,
    # flags of torch, and what is not needed
    MatmulPrecision,
    ReducedPrecisionReductions,
    CudnnBenchmark,
    DetectAnomalyOff,
    AsyncMetrics,
    # data: what is read, by whom, where it goes; on a GPU, transforms come after the copy
    CacheDataset,
    LoaderWorkers,
    PinMemory,
    PrefetchToDevice,
    BatchedTransforms,
    # the model
    BiasOff,
    ActivationCheckpointing,
    # compilation
    CompileModel,
    # layout and number formats of the model's call
    ChannelsLast,
    Autocast,
    NoGradValidation,  # outermost: compiled code is told that no gradient is wanted
    # before the model's call goes on: a smaller model
    Prune,
    # the ranks: each with a part of every parameter, which optimizers are given
    FullyShard,
    # the optimizer
    FusedOptimizer,
    CompileOptimizer,
    SetToNone,
    # the batch
    BatchSize,
    GradientAccumulation,
    # several processes
    Ddp,
)


def by_name(name: str) -> type[Acceleration]:
    """The entry class of that name.

    >>> by_name("autocast")
    <class 'accel.accelerations.autocast.Autocast'>

    Raises UnknownName, with the nearest right one.
    """
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    raise UnknownName("acceleration", name, [entry.name for entry in CATALOGUE], instead=instead_of(name))


def __getattr__(name: str) -> object:
    if name == "Plan":  # plan.py imports this package: a plain import here would go in a circle
        from accel.accelerations.plan import Plan

        return Plan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _CallableModule(ModuleType):
    """`accel.accelerations` is this package and, beside `accel.machine()` and the others, the command of that name."""

    def __call__(self) -> object:
        import accel

        return accel._list_accelerations()  # the door may import what lies above this package


sys.modules[__name__].__class__ = _CallableModule

__all__ = ["CARD_HEADINGS", "CATALOGUE", "Acceleration", "Plan", "Proof", "by_name"]
