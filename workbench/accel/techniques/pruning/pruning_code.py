"""Pruning as plain PyTorch and torch-pruning: what `prune` writes into a cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accel.techniques.source.user_names import names_of

if TYPE_CHECKING:
    from accel.techniques.pruning.pruning_schedule import PruningSchedule
    from accel.workload import Workload
    from accel.workload.workload import Role

_FUNCTIONS = '''\
@torch.random.fork_rng(devices=range(torch.cuda.device_count()))
@torch.inference_mode(False)
@torch.enable_grad()
def prune(model, ratio, optimizers, *args, **kwargs):
    """Take the least important filters out of a model, in place: its parameters stay the same objects, only smaller.

    `args` and `kwargs` are those of a call of the model.
    """
    args, kwargs = tree_map(lambda value: value.detach().clone() if torch.is_tensor(value) else value, (args, kwargs))
    numbered = copy.deepcopy(model).requires_grad_(True){gradients}
    for module in numbered.modules():  # hooks are for the model's own calls
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            getattr(module, kind).clear()
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
        tensors = [*smaller._parameters.items(), *smaller._buffers.items()]
        cut = [(name, left) for name, left in tensors if left is not None and left.shape != getattr(module, name).shape]
        for name, value in vars(smaller).items() if cut else ():  # out_channels, num_features and so on
            if type(value) in (int, tuple):
                setattr(module, name, value)
        for name, left in cut:
            keep_entries(getattr(module, name), left.detach().long(), optimizers)

def keep_entries(tensor, numbers, optimizers):
    """Make a tensor smaller, and with it its gradient and the optimizer's state."""
    shape, kept = tensor.shape, []
    for dim, size in enumerate(shape):  # the indices that are left in each dimension
        row = numbers.movedim(dim, 0).reshape(numbers.shape[dim], -1)[:, 0]
        kept.append(row // math.prod(shape[dim + 1 :]) % size)
    states = [value for optimizer in optimizers for value in optimizer.state.get(tensor, {{}}).values()]
    for each in (tensor.grad, *states, tensor):
        if not torch.is_tensor(each) or each.dim() != len(shape):
            continue
        if any(size not in (1, full) for size, full in zip(each.shape, shape)):  # 1: a number for each row or column
            continue
        left = each.detach()
        for dim, index in enumerate(kept):
            left = left.index_select(dim, index) if left.shape[dim] == shape[dim] else left
        order = sorted(range(each.dim()), key=lambda dim: -each.stride(dim))  # channels-last stays so
        left = torch.empty_permuted(left.shape, order, dtype=each.dtype, device=each.device).copy_(left)
        # Results that are still alive expect a gradient of the old shape; only a new dtype makes torch forget them.
        other = torch.float64 if each.dtype != torch.float64 else torch.float32
        each.data = torch.empty(0, dtype=other, device=each.device)
        each.data = left
'''
_GRADIENTS = """
    for copied, parameter in zip(numbered.parameters(), model.parameters()):
        copied.grad = vars(parameter).pop("summed_gradient", torch.zeros_like(parameter))"""
_SUM = """\
def add_gradient(parameter):  # over the steps since the last pruning: weights are ranked by it
    gradient = parameter.grad.nan_to_num(0.0, 0.0, 0.0)  # an overflow of float16 must not spoil the sum
    parameter.summed_gradient = getattr(parameter, "summed_gradient", 0) + gradient
"""
_WHEN_CALLED = """\
@torch.compiler.disable
def {hook}(module, args, kwargs):
{body}
"""
_CHOSEN_BY_NNI = """\
# In the trial NNI chose the filters, which cannot live beside this torch. Here torch-pruning does: the same ones in a plain
# chain of layers; where sums tie layers together (residual networks) it takes out more."""
_ONCE = 'if not hasattr({model}, "is_pruned"):  # not once more when this runs again'


def pruning_code(schedule: PruningSchedule, workload: Workload) -> str:
    """The functions, and for each model a call of them, or a hook where its inputs or its time are still to come."""
    is_taylor = schedule.criterion == "taylor"
    kinds = {"conv": "torch.nn.modules.conv._ConvNd", "linear": "torch.nn.Linear"}
    excluded = (
        f"\n        ignored_layers=[numbered.get_submodule(name) for name in {list(schedule.excluded)}],"
    )
    parts = [_SUM] if is_taylor else []
    parts.append(
        _FUNCTIONS.format(
            gradients=_GRADIENTS if is_taylor else "",
            importance=IMPORTANCE[schedule.criterion],
            ignored=excluded if schedule.excluded else "",
            types=kinds.get(schedule.types) or ", ".join(kinds.values()),
        )
    )
    existing = workload.objects().optimizers
    optimizers = ", ".join(name for name in names_of(workload, "optimizers") if name in existing)
    modules = {"copy", "math"}
    for role in {role.name: role for role in workload.roles if role.kind == "models"}.values():
        is_known = role.inputs is not None and not role.inputs.strange
        if schedule.last_call == 0 and is_known:
            parts.append(_ONCE.format(model=role.name))
            parts.append(f"    prune({role.name}, {schedule.sparsity}, [{optimizers}], {_call(role)})")
        else:
            parts += _hooked(schedule, role)
            modules |= {"gc", "itertools"} if schedule.last_call else {"gc"}
        parts.append(f"    {role.name}.is_pruned = True")
    imports = [_CHOSEN_BY_NNI] if schedule.engine == "nni" else []
    imports += [f"import {module}" for module in sorted(modules)]
    imports += ["", "import torch", "import torch_pruning", "from torch.utils._pytree import tree_map", ""]
    return "\n".join([*imports, *parts]) + "\n"


def _hooked(schedule: PruningSchedule, role: Role) -> list[str]:
    """A hook that prunes the model when it is called for the first time, or after so many training calls."""
    words = "_".join(re.findall(r"[A-Za-z0-9]+", role.name))
    hook, hooks, calls = f"prune_{words}_when_due", f"hooks_of_{words}", f"training_calls_of_{words}"
    optimizers = "[each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)]"
    if schedule.last_call == 0:
        body = [f"prune(module, {schedule.sparsity}, {optimizers}, *args, **kwargs)"]
        body += [f"for each in {hooks}:", "    each.remove()"]
    else:
        due = {
            call: schedule.ratio_at(call) for call in range(schedule.last_call + 1) if schedule.ratio_at(call)
        }
        body = [
            "if not module.training or not torch.is_grad_enabled():",
            "    return",
            f"call = next({calls})",
            f"ratio = {due}.get(call)  # after so many training calls, which share goes",
            "if ratio:",
            f"    optimizers = {optimizers}",
            "    prune(module, ratio, optimizers, *args, **kwargs)",
            f"if call == {schedule.last_call}:",
            f"    for each in {hooks}:",
            "        each.remove()",
        ]
    body_text = "\n".join(f"    {line}" for line in body)
    parts = [
        _WHEN_CALLED.format(hook=hook, body=body_text),
        _ONCE.format(model=role.name),
        *([f"    {calls} = itertools.count()"] if schedule.last_call else []),
        f"    {hooks} = []",
        f"    {hooks}.append({role.name}.register_forward_pre_hook({hook}, with_kwargs=True))",
    ]
    if schedule.criterion == "taylor":
        parts += [
            f"    for parameter in {role.name}.parameters():",
            "        if parameter.requires_grad:",
            f"            {hooks}.append(parameter.register_post_accumulate_grad_hook(add_gradient))",
        ]
    return parts


IMPORTANCE = {
    "l1": "MagnitudeImportance(p=1)",
    "l2": "MagnitudeImportance(p=2)",
    "fpgm": "FPGMImportance()",
    "taylor": "TaylorImportance()",
}


def _call(role: Role) -> str:
    """The arguments of the model's first call, with zeros in the place of its tensors."""
    assert role.inputs is not None
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
