"""The catalogue: one file = one frozen dataclass, whose fields are its knobs and whose docstring is its card.

accel.accelerations()           what there is; once a cell was profiled, what can work on it and what cannot
accel.accelerations.CATALOGUE   the entries themselves

    acceleration.py    what an entry is: the Protocol that all satisfy, Proof, cards, layers

What entries are made of is in `accel.techniques`; several together are a Plan (`accel.plans`).

To add one, take the four steps in CONTRIBUTING.md.
"""

from __future__ import annotations

import sys

from accel.accelerations.acceleration import CARD_HEADINGS, Acceleration, Proof
from accel.accelerations.activation_checkpointing import ActivationCheckpointing
from accel.accelerations.allocator import Allocator
from accel.accelerations.async_metrics import AsyncMetrics
from accel.accelerations.autocast import Autocast
from accel.accelerations.autocast_off import AutocastOff
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
from accel.accelerations.env_var import EnvVar
from accel.accelerations.fully_shard import FullyShard
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.accelerations.gradient_accumulation import GradientAccumulation
from accel.accelerations.intel_openmp import IntelOpenmp
from accel.accelerations.interop_threads import InteropThreads
from accel.accelerations.intraop_threads import IntraopThreads
from accel.accelerations.ipex import Ipex
from accel.accelerations.loader_workers import LoaderWorkers
from accel.accelerations.matmul_precision import MatmulPrecision
from accel.accelerations.no_grad_validation import NoGradValidation
from accel.accelerations.omp_wait_policy import OmpWaitPolicy
from accel.accelerations.onednn import Onednn
from accel.accelerations.openmp_affinity import OpenmpAffinity
from accel.accelerations.pin_memory import PinMemory
from accel.accelerations.prefetch_to_device import PrefetchToDevice
from accel.accelerations.prune import Prune
from accel.accelerations.reduced_precision_reductions import ReducedPrecisionReductions
from accel.accelerations.set_to_none import SetToNone
from accel.accelerations.steady_allocator import SteadyAllocator
from accel.accelerations.torch_version import TorchVersion
from accel.callable_package import CallablePackage
from accel.errors import UnknownName
from accel.techniques.source.other_tools import instead_of

# In the order they are applied: the process first; the data; the model's own modules, which what comes after must see; then
# from the inside of the model's call outwards (autocast is entered round the compiled call, and pruning has changed the model
# before any of them sees it); last the optimizer, which needs the weights in their final layout.
CATALOGUE: tuple[type[Acceleration], ...] = (
    # what the process is started with
    TorchVersion,
    EnvVar,
    Allocator,
    IntelOpenmp,
    OpenmpAffinity,
    OmpWaitPolicy,
    Onednn,
    InteropThreads,
    # the process
    SteadyAllocator,
    IntraopThreads,
    # flags of torch, and what is not needed
    MatmulPrecision,
    ReducedPrecisionReductions,
    CudnnBenchmark,
    DetectAnomalyOff,
    AutocastOff,
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
    Ipex,
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


sys.modules[__name__].__class__ = CallablePackage

__all__ = ["CARD_HEADINGS", "CATALOGUE", "Acceleration", "Proof", "by_name"]
