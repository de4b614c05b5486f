"""A real, tiny training: a two-layer convolutional net with BatchNorm on twelve random images, three batches an epoch."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType

import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data._utils import pin_memory

from accel.workload import Replica
from accel.workload.call_inputs import CallInputs
from accel.workload.torch_settings import read_settings
from accel.workload.workload import Role, Workload


@dataclass
class Training:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    loader: DataLoader
    criterion: nn.Module
    built_by: Callable[[], Training] = field(kw_only=True)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def on(self, device: str) -> Training:
        """The same on another device; to be called before its first step."""
        build = self.built_by
        self.model.to(device)
        self.built_by = lambda: build().on(device)
        return self

    def batches(self):
        return ((images.to(self.device), targets.to(self.device)) for images, targets in self.loader)

    @property
    def namespace(self):
        return {name: thing for name, thing in vars(self).items() if name != "built_by"}

    def replica(self) -> Replica:
        return Replica(
            models={"model": self.model},
            optimizers={"optimizer": self.optimizer},
            criteria={"criterion": self.criterion},
            loaders={"loader": self.loader},
        )

    def workload(self, source="train(model, loader, criterion, optimizer)") -> Workload:
        inputs = self.loader.collate_fn([self.loader.dataset[index] for index in range(4)])[0]
        return workload_of(self.replica(), self.namespace, source, CallInputs.of_call(inputs.to(self.device)))

    def epochs(self, count: int = 1) -> list[float]:
        """Losses of `count` epochs from a fixed seed."""
        torch.manual_seed(7)
        losses = []
        for _ in range(count):
            for images, targets in self.batches():
                self.optimizer.zero_grad()
                loss = self.criterion(self.model(images), targets)
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
        return losses

    def twin(self) -> Training:
        """Another training, built as a user builds one, at the same point: same weights, same optimizer state."""
        other = self.built_by()
        other.model.load_state_dict(self.model.state_dict())
        other.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        return other


def training(optimizer=torch.optim.Adam, steps_before: int = 0) -> Training:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 5)
    )
    data = TensorDataset(torch.randn(12, 3, 8, 8), torch.arange(12) % 5)
    options = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
    made = Training(
        model,
        optimizer(model.parameters(), lr=0.01, **options),
        DataLoader(data, batch_size=4, shuffle=True),
        nn.CrossEntropyLoss(),
        built_by=partial(training, optimizer),
    )
    if steps_before:
        made.epochs(steps_before)
    return made


def training_of_blocks(optimizer=torch.optim.Adam, steps_before: int = 0) -> Training:
    """The same with its layers in two blocks, and dropout."""
    made = training(optimizer)
    conv, norm, relu, second, flatten, linear = made.model
    model = nn.Sequential(
        nn.Sequential(conv, norm, relu, nn.Dropout(0.2)),
        nn.Sequential(second, nn.ReLU(), nn.Dropout(0.2)),
        flatten,
        linear,
    )
    made = Training(**made.namespace | {"model": model}, built_by=partial(training_of_blocks, optimizer))
    if steps_before:
        made.epochs(steps_before)
    return made


def workload_of(replica: Replica, namespace, source="", inputs: CallInputs | None = None) -> Workload:
    roles = tuple(
        Role(kind, name, False, weakref.ref(thing), inputs=inputs if kind == "models" else None)
        for kind, named in vars(replica).items() if isinstance(named, dict) and kind != "codes"
        for name, thing in named.items()
    )  # fmt: skip
    return Workload(
        cell=source, source=source, filename="<cell>", namespace=namespace, reads=tuple(namespace), writes=(), roles=roles,
        boundary="optimizer", accumulation=1, steps=3, step_ms=1.0, samples_per_step=4,
    )  # fmt: skip


def wiring(made: Training) -> dict[str, object]:
    """Everything an acceleration may touch, except the numbers that training changes."""
    tensors = {**dict(made.model.named_parameters()), **dict(made.model.named_buffers())}
    return {
        "shapes": {name: tensor.shape for name, tensor in tensors.items()},
        "widths": [{k: v for k, v in vars(m).items() if type(v) in (int, tuple)} for m in made.model.modules()],
        "strides": {name: tensor.stride() for name, tensor in tensors.items()},
        "gradients": [p.grad.stride() for p in made.model.parameters() if p.grad is not None],
        "state": [
            (key, value.stride(), value.dtype)
            for p in made.model.parameters() for key, value in made.optimizer.state.get(p, {}).items()
        ],
        "groups": [{k: v for k, v in group.items() if k != "params"} for group in made.optimizer.param_groups],
        "defaults": dict(made.optimizer.defaults),
        "of optimizer": sorted(vars(made.optimizer)),
        "of loader": {k: v for k, v in vars(made.loader).items() if k != "_iterator"},
        "batches": dict(vars(made.loader.batch_sampler)),
        "iterator": made.loader._iterator,
        "hooks of optimizer": [len(made.optimizer._optimizer_step_pre_hooks), len(made.optimizer._optimizer_step_post_hooks)],
        "of model": sorted(vars(made.model)),
        "classes": [type(module) for module in made.model.modules()],
        "calls": [vars(module).get("_compiled_call_impl") for module in made.model.modules()],
        "threads": torch.get_num_threads(),
        "anomaly mode": (torch.is_anomaly_enabled(), torch.set_anomaly_enabled, torch.autograd._engine_run_backward),
        "autocast": torch.autocast.__enter__,
        "settings": {k: v for k, v in read_settings().items() if k not in ("anomaly mode", "gradient mode")},
        "backward": torch.autograd.backward,
        "step hooks": [len(hooks) for hooks in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)],
        "code": [each.__code__ for each in made.namespace.values() if isinstance(each, FunctionType)],
        "copies": (torch.Tensor.to, torch.Tensor.cuda, pin_memory.pin_memory),
    }  # fmt: skip


def bits(made: Training) -> list[bytes]:
    """The numbers themselves: parameters, buffers, optimizer state."""
    state = [v for p in made.model.parameters() for v in made.optimizer.state.get(p, {}).values()]
    return [
        t.detach().cpu().contiguous().numpy().tobytes() for t in (*made.model.state_dict().values(), *state)
    ]
