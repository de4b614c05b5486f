"""For each entry of the catalogue: how it can fail without an error, and what to test it with. One line an entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from small_training import Training, training, training_of_blocks
from training_on_pictures import training_on_pictures
from training_that_reads import training_that_reads, with_its_own_code
from trainings_with_waste import clearing_to_zeros, in_anomaly_mode, under_autocast, validating

from accel.accelerations import CATALOGUE, Acceleration
from accel.accelerations.activation_checkpointing import ActivationCheckpointing
from accel.accelerations.autocast import Autocast
from accel.accelerations.batch_size import BatchSize
from accel.accelerations.bias_off import BiasOff
from accel.accelerations.cache_dataset import CacheDataset
from accel.accelerations.compile_model import CompileModel
from accel.accelerations.compile_optimizer import CompileOptimizer
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.accelerations.gradient_accumulation import GradientAccumulation
from accel.accelerations.intraop_threads import IntraopThreads
from accel.accelerations.loader_workers import LoaderWorkers
from accel.accelerations.matmul_precision import MatmulPrecision
from accel.accelerations.prune import Prune
from accel.accelerations.reduced_precision_reductions import ReducedPrecisionReductions
from accel.accelerations.started import Started
from accel.accelerations.steady_allocator import fix_thresholds


@dataclass(frozen=True)
class Case:
    """What the contract tests need to know of an entry.

    `sabotage` takes its effect away behind its back: the proof must notice. `entries` are the values of its knobs that are
    worth a test (default: those it has by itself; the first is also paired with other entries). `training` builds a
    training on which it shows. `gpu`: what it does shows on a GPU only; here its undo, code and reasons are tested.
    """

    sabotage: Callable[[Training], object]
    entries: tuple[Acceleration, ...] = ()
    training: Callable[..., Training] = training
    gpu: bool = False


def without_autocast(made: Training) -> None:
    made.model.forward = torch.autocast(made.device.type, enabled=False)(made.model.forward)


def without_flags_in_steps(made: Training) -> None:
    """Before and after each step the flags are as they should be."""
    (group,) = made.optimizer.param_groups
    wanted = {flag: group[flag] for flag in ("fused", "foreach")}
    made.optimizer.register_step_pre_hook(lambda *_: group.update(fused=False, foreach=False))
    made.optimizer.register_step_post_hook(lambda *_: group.update(wanted))


ENTER_AUTOCAST = torch.autocast.__enter__


def with_torchs_autocast(made: Training) -> None:
    torch.autocast.__enter__ = ENTER_AUTOCAST


def with_its_own_data(made: Training) -> None:
    """The loader as its user built it."""
    own = made.built_by().loader
    vars(made.loader).update(dataset=own.dataset, collate_fn=own.collate_fn)


CASES: dict[str, Case] = {
    # the process
    "steady_allocator": Case(lambda made: fix_thresholds()),
    # one thread is as many as some machines have by default
    "intraop_threads": Case(lambda made: torch.set_num_threads(1), (IntraopThreads(n=2),)),
    # flags of torch, and what is not needed
    "matmul_precision": Case(
        lambda made: torch.set_float32_matmul_precision("highest"),
        (MatmulPrecision(), MatmulPrecision(precision="medium")),
        gpu=True,
    ),
    "reduced_precision_reductions": Case(
        lambda made: setattr(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
        (ReducedPrecisionReductions(), ReducedPrecisionReductions(bf16=False, accumulation=True)),
        gpu=True,
    ),
    "cudnn_benchmark": Case(lambda made: setattr(torch.backends.cudnn, "benchmark", False), gpu=True),
    "detect_anomaly_off": Case(
        lambda made: setattr(torch, "set_anomaly_enabled", torch._C.set_anomaly_enabled),
        training=in_anomaly_mode,
    ),
    "autocast_off": Case(with_torchs_autocast, training=under_autocast),
    "async_metrics": Case(with_its_own_code, training=training_that_reads),
    # data
    "cache_dataset": Case(with_its_own_data, (CacheDataset(),), training_on_pictures),
    "loader_workers": Case(
        lambda made: vars(made.loader).update(num_workers=0, persistent_workers=False),
        (LoaderWorkers(n=1), LoaderWorkers(n=1, persistent=True)),
    ),
    "pin_memory": Case(lambda made: vars(made.loader).update(pin_memory=False), gpu=True),
    "prefetch_to_device": Case(lambda made: vars(made.loader).pop("_get_iterator"), gpu=True),
    "batched_transforms": Case(with_its_own_data, training=training_on_pictures),
    # the model
    "bias_off": Case(
        lambda made: setattr(made.model[0], "bias", torch.nn.Parameter(torch.zeros(4, device=made.device))),
        (BiasOff(), BiasOff(scope="before norm")),
    ),
    "activation_checkpointing": Case(
        lambda made: [vars(block).pop("_compiled_call_impl", None) for block in made.model[:2]],
        (ActivationCheckpointing(), ActivationCheckpointing(every=2)),
        training_of_blocks,
    ),
    # compilation
    "compile_model": Case(
        lambda made: torch.compiler.set_stance("force_eager"),
        (CompileModel(), CompileModel(backend="aot_eager", scope="step")),
    ),
    # layout and number formats of the model's call
    "channels_last": Case(lambda made: made.model.to(memory_format=torch.contiguous_format)),
    "autocast": Case(without_autocast, (Autocast(), Autocast(dtype="fp16"))),
    "no_grad_validation": Case(
        lambda made: setattr(made.model, "forward", torch.enable_grad()(made.model.forward)),
        training=validating,
    ),
    # before the model's call goes on: a smaller model
    "prune": Case(
        lambda made: vars(made.model).pop("_compiled_call_impl"),
        (Prune(), Prune(criterion="taylor", stages=2, steps_between=1)),
    ),
    # the optimizer
    "fused_optimizer": Case(without_flags_in_steps, (FusedOptimizer(), FusedOptimizer(kind="foreach"))),
    "compile_optimizer": Case(
        lambda made: torch.compiler.set_stance("force_eager"), (CompileOptimizer(backend="aot_eager"),)
    ),
    "set_to_none": Case(lambda made: vars(made.optimizer).pop("zero_grad"), training=clearing_to_zeros),
    # the batch
    "batch_size": Case(
        lambda made: vars(made.loader.batch_sampler).update(batch_size=4),
        (BatchSize(factor=2), BatchSize(factor=3, lr_rule="sqrt"), BatchSize(factor=0.5, lr_rule="linear")),
    ),
    "gradient_accumulation": Case(
        lambda made: vars(made.optimizer).pop("step"),
        (GradientAccumulation(), GradientAccumulation(micro_batches=3)),
    ),
}

# Those that need or make ranks have no training in one process to be asked about: tests/distributed and tests/workers ask them.
# So have those that a process is started with: test_started.py asks them.
IN_ONE_PROCESS = [
    kind
    for kind in CATALOGUE
    if not (
        getattr(kind, "needs_ranks", False)
        or getattr(kind, "makes_ranks", False)
        or issubclass(kind, Started)
    )
]
if missing := [kind.name for kind in IN_ONE_PROCESS if kind.name not in CASES]:
    raise LookupError(f"{missing} have no line in CASES: see 'Add an acceleration' in CONTRIBUTING.md")
FIRST = [(CASES[kind.name].entries or (kind(),))[0] for kind in IN_ONE_PROCESS]
ENTRIES = [entry for kind in IN_ONE_PROCESS for entry in CASES[kind.name].entries or (kind(),)]


def case_of(*names: str) -> Case:
    """The case of the first entry that needs a training of its own, else of the first."""
    cases = [CASES[name] for name in names]
    return next((case for case in cases if case.training is not training), cases[0])
