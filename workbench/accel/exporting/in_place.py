"""The short forms of the accelerations: an argument of a constructor, a `with` round a call, one line after a model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accel.accelerations.async_metrics import (
    AsyncMetrics,
    cell_without_waits,
    functions_without_waits,
)
from accel.accelerations.autocast import Autocast
from accel.accelerations.channels_last import ChannelsLast
from accel.accelerations.detect_anomaly_off import SWITCHES, DetectAnomalyOff
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.accelerations.loader_workers import LoaderWorkers
from accel.exporting.call_arguments import takes_keywords_safely, with_keywords
from accel.exporting.cell_tree import CellTree, resolve
from accel.exporting.edits import Edits
from accel.exporting.model_calls import (
    DirectCall,
    direct_calls,
    four_dimensional_arguments,
    pass_channels_last,
    put_under_autocast,
    returns_one_float32_tensor,
)
from accel.techniques.numerics.tensor_layout import same_layout_code
from accel.workload.names_used import names_in_functions
from accel.workload.workload import look_up

if TYPE_CHECKING:
    import libcst as cst

    from accel.accelerations.acceleration import Acceleration
    from accel.plans.plan import Plan
    from accel.workload.workload import Role, Workload


class InPlace:
    """Tries the short form of an entry for one object; every answer is one of three.

    None: there is no short form here, write the general one. "": done, in the cell's own lines. Any other text: the
    lines to add where the general form would have gone.
    """

    def __init__(
        self, tree: CellTree, edits: Edits, workload: Workload, plan: Plan, *, has_torch: bool
    ) -> None:
        self._tree, self._edits, self._workload, self._plan = tree, edits, workload, plan
        self._has_torch = has_torch  # whether lines of the cell can say `torch`
        self._calls: dict[str, list[DirectCall] | None] = {}
        self.says_torch = False

    def of_process(self, entry: Acceleration) -> str | None:
        """For what belongs to no object: anomaly mode is taken out where the cell itself switches it on.

        Numbers that can wait are changed in the cell's own text before anything else; what is left is functions.
        """
        if isinstance(entry, AsyncMetrics) and cell_without_waits(self._workload) is not None:
            return functions_without_waits(self._workload)
        if not isinstance(entry, DetectAnomalyOff) or not self._has_torch:
            return None
        if SWITCHES & names_in_functions(self._workload):
            return None
        calls = anomaly_switches(self._tree)
        if not calls:
            return None
        for call in calls:
            switch_anomaly_mode_off(self._edits, call)
        self.says_torch = True
        return ""

    def existing(self, entry: Acceleration, role: Role) -> str | None:
        """For an object from before the cell."""
        return self._model(entry, role) if role.kind == "models" else None

    def built(self, entry: Acceleration, role: Role, places: Sequence[cst.CSTNode]) -> str | None:
        """For an object that the assignments `places` of the cell build."""
        if role.kind == "models":
            return self._model(entry, role)
        calls = [self._construction(place, entry) for place in places]
        if None in calls:
            return None
        for call in calls:
            assert call is not None
            self._edits.change_call(call, lambda edited: with_keywords(edited, _keywords(entry)))
        return ""

    def _model(self, entry: Acceleration, role: Role) -> str | None:
        calls = self._short_calls(role) if self._has_torch else None
        if calls is None or not isinstance(entry, (ChannelsLast, Autocast)):
            return None
        if isinstance(entry, Autocast) and entry.dtype == "fp16":
            return None  # the loss scale belongs to the backward pass, not to the call
        self.says_torch = True
        for call in calls:
            if isinstance(entry, Autocast):
                put_under_autocast(self._edits, call, device=self._device_type(), dtype="torch.bfloat16")
            else:
                positions = four_dimensional_arguments(self._tree, call, self._workload.namespace)
                pass_channels_last(self._edits, call, positions or [])
        return "" if isinstance(entry, Autocast) else self._weights_channels_last(role)

    def _weights_channels_last(self, role: Role) -> str:
        """The model's weights, and the state of an optimizer that was fused before, which has to lie like them."""
        lines = [f"{role.name}.to(memory_format=torch.channels_last)"]
        if not role.is_built_by_cell and FusedOptimizer.name not in self._plan.names:
            for name, optimizer in self._workload.objects().optimizers.items():
                if any(group.get("fused") for group in optimizer.param_groups):
                    lines += same_layout_code(name)
        return "\n".join(lines)

    def _short_calls(self, role: Role) -> list[DirectCall] | None:
        """The model's calls, if all that the plan does round them can be written there."""
        if role.name not in self._calls:
            self._calls[role.name] = self._find_short_calls(role)
        return self._calls[role.name]

    def _find_short_calls(self, role: Role) -> list[DirectCall] | None:
        namespace = self._workload.namespace
        calls = direct_calls(self._tree, role.name, look_up(namespace, role.name), namespace)
        if calls is None:
            return None
        if Autocast.name in self._plan.names and not returns_one_float32_tensor(self._tree, calls, namespace):
            return None
        arguments = [four_dimensional_arguments(self._tree, call, namespace) for call in calls]
        return None if ChannelsLast.name in self._plan.names and None in arguments else calls

    def _device_type(self) -> str:
        return self._workload.objects().device_type

    def _construction(self, place: cst.CSTNode, entry: Acceleration) -> cst.Call | None:
        """The constructor's call in `optimizer = torch.optim.Adam(…)`, when keywords can be added to it safely."""
        import libcst as cst

        if not isinstance(place, (cst.Assign, cst.AnnAssign)) or not isinstance(place.value, cst.Call):
            return None
        targets = (
            [target.target for target in place.targets] if isinstance(place, cst.Assign) else [place.target]
        )
        if len(targets) != 1 or not isinstance(targets[0], cst.Name):
            return None
        call = place.value
        rule = _constructor_rules(entry).get(resolve(call.func, self._workload.namespace))
        return (
            call
            if rule is not None and takes_keywords_safely(call, positional=rule[0], unless=rule[1])
            else None
        )


def _constructor_rules(entry: Acceleration) -> dict[Any, tuple[int, tuple[str, ...]]]:
    """Classes whose constructor takes the entry's keywords: how many arguments precede, which rule them out."""
    from torch import optim
    from torch.utils.data import DataLoader

    if isinstance(entry, FusedOptimizer):
        kinds: list[Any] = [
            optim.Adam,
            optim.AdamW,
            optim.SGD,
        ]  # not Adagrad: its state wants laying out at once
        if entry.kind == "foreach":
            kinds += [optim.RMSprop, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adadelta, optim.ASGD]
        unless = ("fused", "foreach", "capturable", "differentiable")
        return {kind: (min(6, _arguments_before(kind, entry.kind)), unless) for kind in kinds}
    # Workers that stay need more than an argument, for the samples to keep their order.
    if not isinstance(entry, LoaderWorkers) or entry.persistent:
        return {}
    return {DataLoader: (5, () if entry.n else ("multiprocessing_context", "persistent_workers"))}


def _arguments_before(kind: type, name: str) -> int:
    """How many positional arguments a constructor can be given before it comes to this one."""
    return list(inspect.signature(kind).parameters).index(name)


def _keywords(entry: Acceleration) -> dict[str, object]:
    """The arguments that an entry is, in the constructor of its object."""
    if isinstance(entry, FusedOptimizer):
        return {entry.kind: True}
    assert isinstance(entry, LoaderWorkers)
    return dict(entry.settings)


_SWITCHES = ("set_detect_anomaly", "detect_anomaly")


def anomaly_switches(tree: CellTree) -> list[cst.Call]:
    """Every call of `set_detect_anomaly` or `detect_anomaly`, however the cell reaches it.

    >>> anomaly_switches(CellTree.parse("with torch.autograd.detect_anomaly():\n    train()"))
    [Call(...)]
    """
    import libcst as cst

    return [
        node for node in tree.parents
        if isinstance(node, cst.Call)
        and (
            (isinstance(node.func, cst.Attribute) and node.func.attr.value in _SWITCHES)
            or (isinstance(node.func, cst.Name) and node.func.value in _SWITCHES)
        )
    ]  # fmt: skip


def switch_anomaly_mode_off(edits: Edits, call: cst.Call) -> None:
    """The call becomes `torch.autograd.set_detect_anomaly(False)`, which is a context manager as well."""
    import libcst as cst

    off = cst.ensure_type(cst.parse_expression("torch.autograd.set_detect_anomaly(False)"), cst.Call)
    edits.change_call(call, lambda _: off)
