"""A model with fewer filters: the least important ones are taken out, so that every tensor is really smaller."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.model_call import distinct, find_wrapper, wrapped_call
from accel.accelerations.narrowed_model import NarrowedModel
from accel.accelerations.pruning_plan import Criterion, PruningPlan, Types, is_installed, plan_pruning
from accel.accelerations.user_names import nothing_seen
from accel.errors import AccelError

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload
    from accel.workload.workload import Role


@dataclass(frozen=True)
class Prune:
    """Take the least important filters out of the model: smaller tensors, less to compute.

    What it does
        At the model's first call torch-pruning ranks the filters of each layer (`types`: convolutions, linear layers, or
        both) by `criterion` and takes the share `sparsity` out, with all that goes with them: BatchNorm, the inputs
        of the next layers, gradients and optimizer state. The parameters stay the same objects, with smaller
        tensors. Layers as wide as the output stay whole. An untrained model ranks filters by chance: with
        `warm_up_steps` it is trained whole for so many steps (training calls of the model; an epoch has
        len(loader)), with `stages` the share goes in equal parts, `steps_between` steps apart.
    When it helps
        Models wider than their task needs, where convolutions take most of the step. At 50 % the course CNN on
        3×32×32 images goes from 2,122,186 to 1,059,306 parameters, and resnet18 from 11,181,642 to 2,801,450. Its
        time is not measured here yet.
    When it hurts
        Accuracy: look at it on data held out, over several seeds. In the course's figures 10 % of the filters cost
        nothing and saved 3 % of the time; 80 % saved 38 %, and accuracy fell from 47 to 39 %. Time falls by less
        than the parameters. Tracing takes from half a second to many seconds at the first call (DenseNet121).
        While it is on, a checkpoint of the whole model does not fit; for the undo the whole weights are kept beside.
        Undo puts trained filters back at their places among those that were taken out. Not where a forward has widths
        written into it (`x.view(-1, 4096)`), shuffles channels, or has other layers in training than in evaluation.
        "fpgm" compares every two filters of a layer; "taylor" weighs with the gradients of the steps before.
    In plain PyTorch
        torch_pruning.pruner.BasePruner(
            model, images, torch_pruning.importance.MagnitudeImportance(p=1), pruning_ratio=0.5,
            ignored_layers=[model.head], root_module_types=[torch.nn.Conv2d],
        ).step()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # the parameters are new ones
    References
        https://github.com/VainF/Torch-Pruning
        https://arxiv.org/abs/2301.12900 (DepGraph)
        https://arxiv.org/abs/1608.08710 (filters by their L1 norm)
        https://arxiv.org/abs/1811.00250 (FPGM)
    """

    sparsity: float = 0.5
    types: Types = "conv"
    exclude: str = ""
    criterion: Criterion = "l1"
    warm_up_steps: int = 0
    stages: int = 1
    steps_between: int = 100

    name: ClassVar[str] = "prune"
    layer: ClassVar[Layer] = "model"
    effect: ClassVar[Effect] = "changes training"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity <= 0.95:
            raise AccelError(
                f"prune(sparsity={self.sparsity})",
                because="sparsity is the share of filters that go, from 0 to 0.95",
                do="Write for example prune(sparsity=0.5).",
            )
        for knob, least in (("warm_up_steps", 0), ("stages", 1), ("steps_between", 1)):
            if getattr(self, knob) < least:
                raise AccelError(
                    f"prune({knob}={getattr(self, knob)})",
                    because=f"{knob} is at least {least}",
                    do=f"Write {knob}={least} or more.",
                )

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No engine, no model, nothing to take out, or a model that cannot be followed or would not run afterwards."""
        import torch

        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        reasons = []
        if not is_installed():
            reasons.append("torch-pruning is not installed. Install it with: pip install torch-pruning.")
        if self.sparsity == 0:
            reasons.append("At sparsity=0 nothing is taken out. Write for example prune(sparsity=0.5).")
        for name, optimizer in distinct(replica.optimizers):
            if isinstance(optimizer, torch.optim.LBFGS):
                reasons.append(
                    f"{name} is an LBFGS, which keeps the weights of all layers in one row. Use another optimizer."
                )
        for name, model in distinct(replica.models):
            if reason := _why_not_model(name, model):
                reasons.append(reason)
            elif not reasons and (role := _called(workload, name)) is not None:
                reasons += self._why_not_planned(name, model, role)
        return reasons

    def _why_not_planned(self, name: str, model: torch.nn.Module, role: Role) -> list[str]:
        if role.inputs is None or role.inputs.strange or _call_of(model) is not None:
            return []  # its first call will tell
        try:
            self.plan(model, *role.inputs.filled(lambda shape: shape.empty()))
        except AccelError as refusal:
            return [f"{name}: {refusal.because}. {refusal.do}"]
        return []

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Cut each model down when it is called (again): before that there is nothing to follow its layers with."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                call = _PruningCall(self, model)
                stack.callback(call.undo)
                call.go_on_where_it_was()
                stack.enter_context(wrapped_call(model, call.around))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """What the weights of the layers are by now, after calls of the model with them."""
        calls = [_call_of(model) for _, model in distinct(replica.models)]
        found = [call for call in calls if call is not None]
        if not found or len(found) < len(calls):
            return Proof(False, "a model's call did not go through pruning")
        evidence = [call.evidence() for call in found]
        return Proof(all(one for one, _ in evidence), "; ".join(text for _, text in evidence))

    def as_code(self, workload: Workload) -> str:
        """A function that prunes a model in place, and its call: once, or after so many steps."""
        from accel.accelerations.pruning_code import pruning_code

        return pruning_code(self, workload)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The names in `exclude`."""
        return tuple(name.strip() for name in self.exclude.split(",") if name.strip())

    def ratio_at(self, calls: int) -> float:
        """The share of what a model has by then that goes at its training call number `calls`, from 0; mostly 0.

        >>> [round(Prune(sparsity=0.5, stages=2, steps_between=3).ratio_at(call), 3) for call in range(5)]
        [0.25, 0.0, 0.0, 0.333, 0.0]
        """
        first = max(self.warm_up_steps, 1 if self.criterion == "taylor" else 0)
        stage, rest = divmod(calls - first, self.steps_between)
        if rest or not 0 <= stage < self.stages:
            return 0.0
        done, goal = (self.sparsity * part / self.stages for part in (stage, stage + 1))
        return 1 - (1 - goal) / (1 - done) if done else goal

    @property
    def last_call(self) -> int:
        """The number of the training call at which nothing is left to be taken out."""
        first = max(self.warm_up_steps, 1 if self.criterion == "taylor" else 0)
        return first + (self.stages - 1) * self.steps_between

    def plan(
        self,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        ratio: float | None = None,
        gradients: dict[str, torch.Tensor] | None = None,
    ) -> PruningPlan:
        """What this entry would take out of a model, from a call's inputs."""
        return plan_pruning(
            model,
            args,
            kwargs,
            sparsity=self.sparsity if ratio is None else ratio,
            types=self.types,
            exclude=self.excluded,
            criterion=self.criterion,
            gradients=gradients,
        )


@dataclass
class _Progress:
    """How far the pruning of a model had come when it was undone; trials take a plan off and put it on again."""

    entry: Prune
    calls: int
    plan: PruningPlan | None
    marks: list[tuple[str, int, int]]


_progress: weakref.WeakKeyDictionary[torch.nn.Module, _Progress] = weakref.WeakKeyDictionary()


def _marks(model: torch.nn.Module) -> list[tuple[str, int, int]]:
    """Identity and version of each parameter: they change when it is trained or loaded."""
    return [(name, id(parameter), parameter._version) for name, parameter in model.named_parameters()]


@dataclass
class _PruningCall:
    """The model's call, which cuts the model down when its time has come."""

    entry: Prune
    model: torch.nn.Module
    inner: Callable[..., Any] = field(init=False)
    training_calls: int = 0
    calls_cut_down: int = 0

    def __post_init__(self) -> None:
        self.narrowed = NarrowedModel(self.model)
        self.parameters_before = _count(self.model)
        self._sums: dict[int, torch.Tensor] = {}
        self._hooks: list[Any] = []
        if self.entry.criterion == "taylor":
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    hook = partial(_add_gradient, self._sums)
                    register: Any = parameter.register_post_accumulate_grad_hook
                    self._hooks.append(register(hook))

    def around(self, inner: Callable[..., Any]) -> _PruningCall:
        """Stand round `inner`."""
        self.inner = inner
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if not torch.compiler.is_compiling():
            self._cut_down_if_due(args, kwargs)
            self.calls_cut_down += self.narrowed.plan is not None
        return self.inner(*args, **kwargs)

    def _cut_down_if_due(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        is_training = self.model.training and torch.is_grad_enabled()
        at_once = self.entry.last_call == 0
        if self.training_calls > self.entry.last_call or not (is_training or at_once):
            return
        if ratio := self.entry.ratio_at(self.training_calls):
            named = self.model.named_parameters()
            gradients = {name: self._sums[id(one)] for name, one in named if id(one) in self._sums}
            self.narrowed.narrow(self.entry.plan(self.model, args, kwargs, ratio, gradients))
            self._sums.clear()
        self.training_calls += 1
        if self.training_calls > self.entry.last_call:
            self._forget_gradients()

    def go_on_where_it_was(self) -> None:
        """As far as it was when it was last undone, if nothing happened to the model since."""
        progress = _progress.pop(self.model, None)
        if progress is None or progress.entry != self.entry or progress.marks != _marks(self.model):
            return
        self.training_calls = progress.calls
        if progress.plan is not None:
            self.narrowed.narrow(progress.plan)
        if self.training_calls > self.entry.last_call:
            self._forget_gradients()

    def undo(self) -> None:
        """Widen the model, and remember how far it was."""
        self._forget_gradients()
        plan = self.narrowed.plan
        self.narrowed.widen()
        if self.training_calls:
            _progress[self.model] = _Progress(self.entry, self.training_calls, plan, _marks(self.model))

    def _forget_gradients(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._sums.clear()

    def evidence(self) -> tuple[bool, str]:
        """Whether the model is smaller and was called so, and in which words."""
        plan, now = self.narrowed.plan, _count(self.model)
        if plan is None or not self.calls_cut_down:
            steps = f"{self.training_calls} of {self.entry.last_call + 1} training calls came"
            return False, f"nothing was taken out yet: {steps}"
        if now >= self.parameters_before:
            return False, f"the model has {now:,} parameters, as before"
        widths = [f"{name} {full}→{left}" for name, (full, left) in plan.filters.items()]
        shown = ", ".join(widths[:3]) + (f" and {len(widths) - 3} more" if len(widths) > 3 else "")
        return True, f"filters {shown}; {self.parameters_before:,} → {now:,} parameters"


def _add_gradient(sums: dict[int, torch.Tensor], parameter: torch.Tensor) -> None:
    assert parameter.grad is not None
    gradient, known = parameter.grad.detach(), sums.get(id(parameter))
    if known is None or known.shape != gradient.shape:
        sums[id(parameter)] = gradient.clone()
    else:
        known.add_(gradient)


def _count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _call_of(model: torch.nn.Module) -> _PruningCall | None:
    return find_wrapper(model, _PruningCall)


def _called(workload: Workload, name: str) -> Role | None:
    return next((role for role in workload.roles if role.kind == "models" and role.name == name), None)


def _why_not_model(name: str, model: torch.nn.Module) -> str:
    """What rules pruning out whatever the inputs are; empty when nothing does."""
    import torch
    from torch.nn.parallel import DataParallel, DistributedDataParallel
    from torch.nn.utils import parametrize

    if "_orig_mod" in vars(model).get("_modules", {}):
        return f"{name} is wrapped by torch.compile(…), which hides its call. Write {name}.compile() instead, which keeps it."
    if isinstance(model, torch.jit.ScriptModule):
        return f"{name} is a TorchScript module, whose layers are fixed. Use the module it was made from."
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        kind = type(model).__name__
        return f"{name} is a {kind}, which has noted the sizes of its gradients. Prune the module before it is wrapped."
    if any(
        isinstance(parameter, torch.nn.parameter.UninitializedParameter) for parameter in model.parameters()
    ):
        return f"{name} has lazy layers without weights. Call it once before."
    for path, module in model.named_modules():
        is_computed = (
            parametrize.is_parametrized(module)
            or "weight_orig" in module._parameters
            or "weight_g" in module._parameters
        )
        if is_computed:
            return (
                f"The weights of {path or name} in {name} are computed from others (parametrization, weight_norm, mask). "
                "Remove that first, or leave pruning off."
            )
    return ""
