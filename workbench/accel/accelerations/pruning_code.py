"""Pruning as plain PyTorch and torch-pruning: what `prune` writes into a cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accel.accelerations.user_names import names_of

if TYPE_CHECKING:
    from accel.accelerations.prune import Prune
    from accel.workload import Workload
    from accel.workload.workload import Role

_FUNCTIONS = '''\
def prune(model, ratio, optimizers, *args, **kwargs):
    """Take the least important filters out of a model, in place: its parameters stay the same objects, only smaller.

    `args` and `kwargs` are those of a call of the model.
    """
    numbered = copy.deepcopy(model).requires_grad_(True){gradients}
    pruner = torch_pruning.pruner.BasePruner(
        numbered,
        args,
        torch_pruning.importance.{importance},
        pruning_ratio=ratio - 1e-9,  # 10 × (1 - 0.9) is less than 1: rounding must not take one more{ignored}
        root_module_types=[{types}],
        forward_fn=lambda module, _: module.forward(*args, **kwargs),  # without what is done round its call
        in_channel_groups={{}}, out_channel_groups={{}}, num_heads={{}},
    )
    graph = pruner.DG
    ends = {{node for node in graph.module2node.values() if not node.outputs}}
    for number, group in enumerate(pruner.step(interactive=True)):
        if number == 0:  # the filters are chosen: from here on the copy holds the numbers of its own entries
            for tensor in (*numbered.parameters(), *numbered.buffers()):
                numbers = torch.arange(tensor.numel(), dtype=torch.float64, device=tensor.device)
                tensor.grad, tensor.data = None, numbers.view(tensor.shape)
        if not any(dep.target in ends and graph.is_out_channel_pruning_fn(dep.handler) for dep, _ in group):
            group.prune()  # layers as wide as the output stay whole
    for module, smaller in zip(model.modules(), numbered.modules()):
        for name, value in vars(smaller).items():  # out_channels, num_features and so on
            if type(value) in (int, tuple):
                setattr(module, name, value)
        for name, left in (*smaller._parameters.items(), *smaller._buffers.items()):
            if left is not None and left.shape != getattr(module, name).shape:
                keep_entries(getattr(module, name), left.detach().long(), optimizers)

def keep_entries(tensor, numbers, optimizers):
    """Make a tensor smaller, and with it its gradient and the optimizer's state."""
    states = [value for optimizer in optimizers for value in optimizer.state.get(tensor, {{}}).values()]
    shape = tensor.shape
    for each in (tensor.grad, *states, tensor):
        if torch.is_tensor(each) and each.shape == shape:
            order = sorted(range(each.dim()), key=lambda dim: -each.stride(dim))  # channels-last stays so
            left = torch.empty_permuted(numbers.shape, order, dtype=each.dtype, device=each.device)
            left.copy_(each.detach().flatten()[numbers])
            # Results that are still alive expect a gradient of the old shape; only a new dtype makes torch forget them.
            each.data = torch.empty(0, dtype=torch.float16, device=each.device)
            each.data = left
'''
_GRADIENTS = """
    for copied, parameter in zip(numbered.parameters(), model.parameters()):
        copied.grad = gradients.pop(parameter, torch.zeros_like(parameter))"""
_SUM = """\
gradients = {}  # of each parameter, over the steps since the last pruning: its weights are ranked by them

def add_gradient(parameter):
    gradients[parameter] = gradients[parameter] + parameter.grad if parameter in gradients else parameter.grad.clone()
"""
_LATER = """\
{calls} = itertools.count()

@torch.compiler.disable
def {hook}(module, args, kwargs):
    if module.training and torch.is_grad_enabled():
        ratio = {due}.get(next({calls}))  # after so many training calls, which share goes
        if ratio:
            prune(module, ratio, [{optimizers}], *args, **kwargs)
"""
_ONCE = 'if not hasattr({model}, "is_pruned"):  # not once more when this runs again'


def pruning_code(entry: Prune, workload: Workload) -> str:
    """The functions, and for each model a call of them, or a hook where it is not pruned before its first step."""
    is_taylor, is_later = entry.criterion == "taylor", entry.last_call > 0
    kinds = {"conv": "torch.nn.modules.conv._ConvNd", "linear": "torch.nn.Linear"}
    excluded = f"\n        ignored_layers=[numbered.get_submodule(name) for name in {list(entry.excluded)}],"
    parts = [
        "import copy",
        *(["import itertools"] if is_later else []),
        "import torch",
        "import torch_pruning",
        "",
    ]
    parts += [_SUM] if is_taylor else []
    parts.append(
        _FUNCTIONS.format(
            gradients=_GRADIENTS if is_taylor else "",
            importance=IMPORTANCE[entry.criterion],
            ignored=excluded if entry.excluded else "",
            types=kinds.get(entry.types) or ", ".join(kinds.values()),
        )
    )
    existing = workload.objects().optimizers
    optimizers = ", ".join(name for name in names_of(workload, "optimizers") if name in existing)
    due = {call: entry.ratio_at(call) for call in range(entry.last_call + 1) if entry.ratio_at(call)}
    for role in {role.name: role for role in workload.roles if role.kind == "models"}.values():
        words = "_".join(re.findall(r"[A-Za-z0-9]+", role.name))
        if is_later:
            names = {"calls": f"training_calls_of_{words}", "hook": f"prune_{words}_when_due"}
            parts.append(_LATER.format(due=due, model=role.name, optimizers=optimizers, **names))
            parts.append(_ONCE.format(model=role.name))
            parts.append(f"    {role.name}.register_forward_pre_hook({names['hook']}, with_kwargs=True)")
            if is_taylor:
                parts += [
                    f"    for parameter in {role.name}.parameters():",
                    "        if parameter.requires_grad:",
                ]
                parts += ["            parameter.register_post_accumulate_grad_hook(add_gradient)"]
            parts.append(f"    {role.name}.is_pruned = True")
        else:
            parts.append(_ONCE.format(model=role.name))
            parts.append(f"    prune({role.name}, {entry.sparsity}, [{optimizers}], {_call(role)})")
            parts.append(f"    {role.name}.is_pruned = True")
    return "\n".join(parts) + "\n"


IMPORTANCE = {
    "l1": "MagnitudeImportance(p=1)",
    "l2": "MagnitudeImportance(p=2)",
    "fpgm": "FPGMImportance()",
    "taylor": "TaylorImportance()",
}


def _call(role: Role) -> str:
    """The arguments of the model's first call, with zeros in the place of its tensors."""
    if role.inputs is None:
        return "torch.zeros(1, 3, 32, 32)"  # why_not has asked for a call to be profiled
    words = [_written(value) for value in role.inputs.args]
    return ", ".join([*words, *(f"{name}={_written(value)}" for name, value in role.inputs.kwargs.items())])


def _written(value: Any) -> str:
    import torch

    from accel.workload.call_inputs import TensorShape

    if isinstance(value, TensorShape):
        dtype = "" if value.dtype == torch.float32 else f", dtype={value.dtype}"
        device = "" if value.device == "cpu" else f', device="{value.device}"'
        return f"torch.zeros({', '.join(map(str, value.shape))}{dtype}{device})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_written(held)}" for key, held in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_written(held)}, " for held in value) + ")"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return f'torch.device("{value}")' if isinstance(value, torch.device) else repr(value)
