"""What an exported program does on ranks: as `%%accel ddp`, by the same code, in a process that torchrun and its like started.

`rank_program.py` writes this file, and those of accel that it imports, into the program.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from accel.distributed.data_parallel.averaging import average, average_tensors, send_to_all
from accel.distributed.data_parallel.graph_leaves import named_leaves, parameters_of_graph
from accel.distributed.data_parallel.lineages import Lineages, WorkerStart
from accel.distributed.data_parallel.shared_loader import SharedSampling

VARIABLES = {
    "OMPI_COMM_WORLD_RANK": "RANK", "OMPI_COMM_WORLD_SIZE": "WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK",
    "PMI_RANK": "RANK", "PMI_SIZE": "WORLD_SIZE", "MPI_LOCALRANKID": "LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK", "PMI_LOCAL_RANK": "LOCAL_RANK", "PALS_LOCAL_RANKID": "LOCAL_RANK",
    "SLURM_PROCID": "RANK", "SLURM_NTASKS": "WORLD_SIZE", "SLURM_LOCALID": "LOCAL_RANK",
}  # fmt: skip


class TrainingOnRanks:
    """From `start` on each rank trains on its part of every loader that trains, and gradients are means over all ranks.

    A loader trains when it is iterated with gradients on and a model in training mode. All others every rank reads whole.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        import torch.distributed as dist

        self.namespace, self.rank, self.world_size = namespace, dist.get_rank(), dist.get_world_size()
        self.lineages = Lineages(self.rank)
        self.exchange = Gradients()
        self.samplings: dict[int, tuple[Any, SharedSampling | None]] = {}
        self.open: list[tuple[Any, bool]] = []  # loaders that are iterated now, and whether in parts
        self.weight, self.backwards, self.is_off, self.has_share = 1.0, 0, False, False

    def end(self) -> None:
        """Leave the group when all are done."""
        import gc

        import torch.distributed as dist

        dist.barrier()
        gc.collect()  # while something holds the group, its threads may abort the program as it ends
        dist.destroy_process_group()

    def start(self) -> None:
        """Before the training begins, and after all that makes its objects."""
        import torch
        from torch.nn.parallel import DistributedDataParallel
        from torch.optim.optimizer import register_optimizer_step_pre_hook
        from torch.utils.data import DataLoader

        if self.world_size == 1:
            return
        self.exchange.know(named_leaves(self.namespace))
        self.wrap(DataLoader, "__iter__", self.iterating)
        self.wrap(DataLoader, "__len__", self.counting)
        self.wrap(torch.autograd, "backward", self.passing_back)
        self.wrap(torch.autograd, "grad", self.taking_gradients)
        self.wrap(DistributedDataParallel, "__init__", self.giving_way)
        self.lineages.seeded_alike().__enter__()
        register_optimizer_step_pre_hook(self.before_step)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        setattr(owner, name, functools.wraps(original)(make(original)))

    def giving_way(self, original: Any) -> Any:
        def __init__(model: Any, *args: Any, **kwargs: Any) -> None:
            self.is_off = True  # a library distributes the training itself
            original(model, *args, **kwargs)

        return __init__

    def models(self) -> list[Any]:
        from torch import nn

        return [value for value in list(self.namespace.values()) if isinstance(value, nn.Module)]

    def trains_with(self, loader: Any) -> bool:
        import torch

        trainable = [model for model in self.models() if any(p.requires_grad for p in model.parameters())]
        return torch.is_grad_enabled() and (not trainable or any(model.training for model in trainable))

    # --- loaders --------------------------------------------------------------------------------------------------

    def iterating(self, original: Any) -> Any:
        def __iter__(loader: Any) -> Any:
            if self.is_off:
                return original(loader)
            if not self.trains_with(loader):
                self.send_buffers(statistics=True)
                sampling = self.samplings.get(id(loader), (None, None))[1]
                if sampling is not None:
                    sampling.is_shared = False
                with self.lineages.shared():
                    batches = iter(original(loader))
                return Batches(self.whole(batches, loader), loader)
            sampling = self.sampling_of(loader)
            if sampling is not None:
                sampling.is_shared = True
            self.lineages.part_ways()
            with self.lineages.shared():  # making the iterator draws a seed
                batches = iter(original(loader))
            return Batches(self.part(batches, loader, sampling), loader)

        return __iter__

    def counting(self, original: Any) -> Any:
        def __len__(loader: Any) -> int:
            is_plain = self.is_off or (id(loader) not in self.samplings and not self.trains_with(loader))
            sampling = None if is_plain else self.sampling_of(loader)
            count: int = original(loader)
            in_order = not is_plain and sampling is None
            return count // self.world_size if in_order else count

        return __len__

    def sampling_of(self, loader: Any) -> SharedSampling | None:
        from torch.utils.data import IterableDataset

        if id(loader) in self.samplings:
            return self.samplings[id(loader)][1]
        sampling = None
        if not isinstance(loader.dataset, IterableDataset):
            name = "batch_sampler" if loader.batch_sampler is not None else "sampler"
            sampling = SharedSampling(
                getattr(loader, name), self.lineages, rank=self.rank, world_size=self.world_size, batch="per-rank",
                drop_last=bool(loader.drop_last),
            )  # fmt: skip
            vars(loader)[name] = sampling  # a DataLoader refuses a new one by its name
        vars(loader)["worker_init_fn"] = WorkerStart(self.rank, loader.worker_init_fn)
        self.samplings[id(loader)] = (loader, sampling)
        return sampling

    def part(self, batches: Iterator[Any], loader: Any, sampling: SharedSampling | None) -> Iterator[Any]:
        before, number, group = self.backwards, 0, []
        self.has_share = True
        self.open.append((loader, True))
        try:
            for batch in batches:
                if sampling is not None:
                    self.weight, number = sampling.shares[number].weight, number + 1
                    yield batch
                    continue
                group.append(batch)
                if len(group) == self.world_size:
                    yield group[self.rank]
                    group = []
        finally:
            self.open.remove((loader, True))
            self.weight = 1.0
        if self.backwards == before:
            raise RuntimeError(
                "No backward pass was seen in a loop over a loader of which each rank reads a part, so the loop's results "
                "cover only this rank's part. To evaluate, call model.eval() before the loop, or put the loop under "
                "torch.no_grad()."
            )

    def whole(self, batches: Iterator[Any], loader: Any) -> Iterator[Any]:
        self.open.append((loader, False))
        try:
            while True:
                with self.lineages.shared():
                    try:
                        batch = next(batches)
                    except StopIteration:
                        return
                yield batch
        finally:
            self.open.remove((loader, False))

    # --- gradients ------------------------------------------------------------------------------------------------

    def passing_back(self, original: Any) -> Any:
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
            outputs = [tensors] if hasattr(tensors, "grad_fn") else list(tensors)
            if self.is_off:
                original(tensors, grad_tensors, *args, **kwargs)
                return
            self.check_batches()
            self.backwards += 1
            if self.weight != 1.0:
                grad_tensors = weighted(outputs, grad_tensors, self.weight)
            marks = self.exchange.before_backward(outputs)
            original(outputs, grad_tensors, *args, **kwargs)
            self.exchange.after_backward(marks)
            self.send_buffers(statistics=False)

        return backward

    def taking_gradients(self, original: Any) -> Any:
        def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if self.is_off or kwargs.get("create_graph"):
                return original(outputs, inputs, *args, **kwargs)
            wanted = [inputs] if hasattr(inputs, "grad_fn") else list(inputs)
            heads = [outputs] if hasattr(outputs, "grad_fn") else list(outputs)
            self.exchange.before_backward(heads)
            if not any(id(each) in self.exchange.known for each in wanted):
                return original(outputs, inputs, *args, **kwargs)
            self.check_batches()
            self.backwards += 1
            found = original(outputs, wanted, *args, **kwargs)
            average_tensors([
                each.mul_(self.weight) for each, of in zip(found, wanted, strict=True)
                if each is not None and id(of) in self.exchange.known
            ])  # fmt: skip
            return found

        return grad

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.is_off:
            return
        self.check_loop()
        self.exchange.before_step(optimizer)

    def check_batches(self) -> None:
        if self.has_share:
            return
        self.check_loop()
        raise RuntimeError(
            "The training takes batches that do not come from a DataLoader, so every rank would train on the same batches. "
            "Take the batches from a DataLoader."
        )

    def check_loop(self) -> None:
        if self.open and not any(is_part for _, is_part in self.open):
            raise RuntimeError(
                "This loop trains, but all models were in eval mode when the loop began, so it was taken for an evaluation, "
                "and every rank would train on the same batches. Call model.train() before the loop."
            )

    def send_buffers(self, *, statistics: bool) -> None:
        """Rank 0's, of models in the program's namespace: what training reads, or what batch norms counted."""
        from torch.nn.modules.batchnorm import _NormBase

        modules = {id(module): module for model in self.models() for module in model.modules()}
        send_to_all([
            buffer for module in modules.values() if isinstance(module, _NormBase) == statistics
            for buffer in module.buffers(recurse=False) if buffer.numel()
        ])  # fmt: skip


def joined(namespace: dict[str, Any]) -> TrainingOnRanks:
    """This process as a rank, by the variables of torchrun, Open MPI, MPICH or SLURM.

    All ranks begin alike: with the same random numbers, and the same order of what is kept in sets. Libraries find no variables
    that would make them distribute the training as well.
    """
    if "PYTHONHASHSEED" not in os.environ:
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    for theirs, ours in VARIABLES.items():
        if theirs in os.environ:
            os.environ.setdefault(ours, os.environ[theirs])
    import torch
    import torch.distributed as dist

    has_gpu = torch.cuda.is_available()
    if has_gpu:  # before a cell puts anything on "cuda"
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpu else "gloo")
    for name in (*VARIABLES, *VARIABLES.values(), "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)
    seed = torch.tensor(random.getrandbits(31))
    dist.broadcast(seed, 0)  # by gloo: it lies on the CPU
    random.seed(seed.item())
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed.item())
    return TrainingOnRanks(namespace)


class Gradients:
    """After each backward pass every gradient is the mean over all ranks; of what one rank has none of, that rank has zeros."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}  # by id: all that was seen to be trained
        self.looks = 8  # passes whose graphs are still searched for more

    def know(self, parameters: Iterable[Any]) -> None:
        import torch

        new = {id(p): p for p in parameters if id(p) not in self.known}
        held = [p for p in new.values() if p.numel()]
        of_first = [p.detach().clone() for p in held]
        send_to_all(of_first)  # all ranks begin with rank 0's
        for p, first in zip(held, of_first, strict=True):
            if not torch.equal(p, first):
                p.data.copy_(first)  # past autograd, which may need it for the pass that showed it
        self.known |= new

    def before_backward(self, outputs: list[Any]) -> dict[int, tuple[Any, int]]:
        if self.looks:
            self.looks -= 1
            self.know(parameters_of_graph(outputs, self.known))
        return {key: (p.grad, p.grad._version) for key, p in self.known.items() if p.grad is not None}

    def after_backward(self, before: dict[int, tuple[Any, int]]) -> None:
        new = {
            key for key, p in self.known.items()
            if p.grad is not None and not is_same(p.grad, before.get(key))
        }  # fmt: skip
        if trained := [p for p in self.known.values() if p.requires_grad]:
            average(trained, new)

    def before_step(self, optimizer: Any) -> None:
        """What it changes that no graph showed, as layers that were frozen for long."""
        held = [p for group in optimizer.param_groups for p in group["params"]]
        if unknown := [p for p in held if id(p) not in self.known]:
            average(unknown, {id(p) for p in unknown if p.grad is not None})
            self.known |= {id(p): p for p in unknown}
            self.looks = 8


class Batches:
    """An iterator over a rank's batches that knows how many there are."""

    def __init__(self, batches: Iterator[Any], loader: Any) -> None:
        self.batches, self.loader = batches, loader

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        return next(self.batches)

    def __len__(self) -> int:
        return len(self.loader)


def is_same(gradient: Any, before: tuple[Any, int] | None) -> bool:
    return before is not None and gradient is before[0] and gradient._version == before[1]


def weighted(outputs: list[Any], gradients: Any, weight: float) -> list[Any]:
    """Gradients to begin with, of losses that are means over this rank's part."""
    import torch

    given = [None] * len(outputs) if gradients is None else gradients
    given = [given] if isinstance(given, torch.Tensor) else list(given)
    return [
        gradient
        if output.numel() != 1
        else (torch.ones_like(output) if gradient is None else gradient) * weight
        for output, gradient in zip(outputs, given, strict=True)
    ]
