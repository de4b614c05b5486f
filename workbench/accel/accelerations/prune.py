"""A model with fewer filters: the least important ones are taken out, so that every tensor is really smaller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.environments.wanted import environment_with, no_environment
from accel.errors import AccelError, Reason
from accel.techniques.model.fixed_tensors import why_fixed
from accel.techniques.model.model_call import distinct, find_wrapper, why_never_called, wrapped_call
from accel.techniques.pruning.pruning_call import PruningCall
from accel.techniques.pruning.pruning_schedule import PruningSchedule
from accel.techniques.pruning.torch_pruning_engine import is_installed
from accel.techniques.source.user_names import nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload
    from accel.workload.call_inputs import CallInputs
    from accel.workload.workload import Role


@dataclass(frozen=True)
class Prune(PruningSchedule):
    """Take the least important filters out of the model: smaller tensors, less to compute.

    What it does
        At the model's first call torch-pruning (or NNI, in an environment of its own: `engine="nni"`) ranks the
        filters of each layer (`types`: convolutions, linear layers, or both) by `criterion` and takes the share
        `sparsity` out, with all that goes with them: BatchNorm, the inputs of the next layers, gradients and optimizer
        state. The parameters stay the same objects, with smaller
        tensors. Layers as wide as the output stay whole. An untrained model ranks filters by chance: with
        `warm_up_steps` it is trained whole for so many steps (training calls of the model; an epoch has
        len(loader)), with `stages` the share goes in equal parts, `steps_between` steps apart.
    When it helps
        Models wider than their task needs, where convolutions take most of the step. At 50 % the course CNN on
        3×32×32 images goes from 2,122,186 to 1,059,306 parameters, and resnet18 from 11,181,642 to 2,801,450. Measured
        on two cores of an EPYC under a steady allocator, that CNN on digits: ×2.09 [2.06, 2.12] at 50 %, accuracy
        91.2 % against 91.5 %; ×4.57 [4.49, 4.66] at 80 %, accuracy 87.2 %. DenseNet121 on 32×32 images, batches of
        16: ×1.52 [1.20, 1.91] at 50 %.
    When it hurts
        Accuracy: look at it on data held out, over several seeds. In the course's figures 10 % of the filters cost
        nothing and saved 3 % of the time; 80 % saved 38 %, and accuracy fell from 47 to 39 %. What a step spends
        outside of its layers stays. Tracing takes from half a second to many seconds at the first call (DenseNet121).
        While it is on, a checkpoint of the whole model does not fit; the whole weights are kept too, for the undo.
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

    name: ClassVar[str] = "prune"
    layer: ClassVar[Layer] = "model"
    effect: ClassVar[Effect] = "changes training"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()
    after_undo: ClassVar[str] = (
        "the filters that were taken out are back with the values of then, among those trained without them; what training "
        "would have made of them cannot come back"
    )

    @property
    def is_slow_to_begin(self) -> bool:
        """NNI takes up to a minute, in a process of its own."""
        return self.engine == "nni"

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No engine, no model, nothing to take out, or a model that cannot be followed or would not run afterwards."""
        import torch

        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        reasons = []
        reasons += self._why_no_engine()
        if self.sparsity == 0:
            reasons.append(
                Reason("At sparsity=0 nothing is taken out", "Write for example prune(sparsity=0.5).")
            )
        for name, optimizer in distinct(replica.optimizers):
            if isinstance(optimizer, torch.optim.LBFGS):
                reasons.append(
                    Reason(
                        f"{name} is an LBFGS, which keeps the weights of all layers in one row",
                        "Use another optimizer.",
                    )
                )
        for name, model in distinct(replica.models):
            if reason := _why_not_model(name, model):
                reasons.append(reason)
            elif uncalled := why_never_called(name, workload):
                reasons += uncalled
            elif not reasons and (role := _called(workload, name)) is not None:
                reasons += self._why_not_planned(workload, model, role)
        return reasons

    def _why_no_engine(self) -> list[Reason]:
        if self.engine == "torch_pruning":
            missing = Reason("torch-pruning is not installed", "Install it with: pip install torch-pruning.")
            return [] if is_installed() else [missing]
        if self.criterion == "taylor":
            return [
                Reason(
                    "NNI is not given the gradients of steps here",
                    'Use criterion="l1", or engine="torch_pruning".',
                )
            ]
        return [] if environment_with("nni") else [no_environment("NNI", "nni")]

    def _why_not_planned(self, workload: Workload, model: torch.nn.Module, role: Role) -> list[Reason]:
        if role.inputs is None or role.inputs.strange or _call_of(model) is not None:
            return []  # its first call will tell
        if self.engine == "nni":  # it would take seconds, or a minute, to try it here
            from accel.techniques.pruning.nni_engine import why_not_nni  # loads what starts processes

            reason = why_not_nni(model, role.inputs.kwargs)
            return [] if reason is None else [reason]
        known, asked = _reasons_of.setdefault(workload, {}), (self, role.name, _layers_of(model))
        if asked not in known:
            known[asked] = self._why_not_tried(role.name, model, role.inputs)
        return known[asked]

    def _why_not_tried(self, name: str, model: torch.nn.Module, inputs: CallInputs) -> list[Reason]:
        try:
            self.plan(model, *inputs.filled(lambda shape: shape.empty()))
        except AccelError as refusal:
            return [Reason(f"{name}: {refusal.because}", refusal.do)]
        return []

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Cut each model down when it is called (again): before that there is nothing to follow its layers with."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                call = PruningCall(self, model)
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
        from accel.techniques.pruning.pruning_code import pruning_code

        return pruning_code(self, workload)


# Following the layers takes 0.1 s for the course CNN and 2 s for DenseNet121 on a two-core EPYC, and a panel asks after each
# keep, undo and turn of a knob, in the thread that cells run in.
_reasons_of: WeakKeyDictionary[Workload, dict[tuple[object, ...], list[Reason]]] = WeakKeyDictionary()


def _layers_of(model: torch.nn.Module) -> tuple[object, ...]:
    """The layers and parameters by name, type and shape: while they stay the same, so do the reasons."""
    modules = ((path, type(module), module.training) for path, module in model.named_modules())
    tensors = ((name, tuple(p.shape), p.dtype, p.device) for name, p in model.named_parameters())
    return (*modules, *tensors)


def _call_of(model: torch.nn.Module) -> PruningCall | None:
    return find_wrapper(model, PruningCall)


def _called(workload: Workload, name: str) -> Role | None:
    return next((role for role in workload.roles if role.kind == "models" and role.name == name), None)


def _why_not_model(name: str, model: torch.nn.Module) -> Reason | None:
    """What rules pruning out whatever the inputs are; None when nothing does."""
    import torch
    from torch.nn.utils import parametrize

    if fixed := why_fixed(name, model):
        return fixed
    if isinstance(model, torch.jit.ScriptModule):
        return Reason(
            f"{name} is a TorchScript module, whose layers are fixed", "Use the module it was made from."
        )
    if isinstance(model, torch.nn.DataParallel):
        return Reason(
            f"{name} is a DataParallel, which copies its module in each call",
            "Prune the module before it is wrapped.",
        )
    for path, module in model.named_modules():
        is_computed = (
            parametrize.is_parametrized(module)
            or "weight_orig" in module._parameters
            or "weight_g" in module._parameters
        )
        if is_computed:
            return Reason(
                f"The weights of {path or name} in {name} are computed from others (parametrization, weight_norm, mask)",
                "Remove that first, or leave pruning off.",
            )
    return None
