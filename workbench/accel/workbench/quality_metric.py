"""Which metric is meant: a function of the notebook, or one of the two that are built in."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from accel.errors import AccelError, UnknownName
from accel.workbench.quality_request import QualityRequest
from accel.workload.roles import names_by_id
from accel.workload.workload import Workload, look_up

BUILT_IN = ("accuracy", "loss")
_MODEL_WORDS = ("model", "net", "module", "classifier")
_LOWER_IS_BETTER = ("loss", "error", "perplexity", "mse", "mae", "rmse")
_CLASSIFYING = ("CrossEntropyLoss", "NLLLoss")
_DO = "Define it in a cell of its own as metric(model, loader) or metric(model), returning one number."


@dataclass(frozen=True)
class QualityMetric:
    """A metric: what results call it, the function behind it, and what it is called with.

    `name` is the function's in the namespace, or a built-in's; `criterion` is the one that "loss" needs.
    """

    label: str
    name: str
    is_built_in: bool
    arguments: int = 2
    criterion: str = ""

    @property
    def needs_loader(self) -> bool:
        """Whether it is called with held-out data."""
        return self.is_built_in or self.arguments > 1

    def is_higher_better(self, request: QualityRequest) -> bool:
        """From the target, or else from the name."""
        if request.target is not None:
            return request.target.is_at_least
        return not any(word in self.label.lower() for word in _LOWER_IS_BETTER)

    def described(self, model: str, held_out: str) -> str:
        """One line on how it is measured."""
        if not self.is_built_in:
            given = ", ".join([model, held_out][: self.arguments])
            return f"{self.label}: your function {self.name}({given}), with the model in evaluation mode."
        what = "share of right answers" if self.name == "accuracy" else f"mean of {self.criterion}"
        return f"{self.label}: {what} on {held_out}, with the model in evaluation mode."


def find_metric(request: QualityRequest, workload: Workload) -> QualityMetric:
    """The metric that is named, or that fits the target's name, or the training's criterion.

    >>> find_metric(QualityRequest.of(until="accuracy>=0.95"), workload)
    QualityMetric(label='accuracy', name='accuracy', is_built_in=True, ...)
    """
    label = request.target.metric if request.target is not None else ""
    if request.metric is not None:
        name = _name_of(request.metric, workload.namespace)
        function = look_up(workload.namespace, name)
        if function is None and name in BUILT_IN:
            return _built_in(name, label or name, workload)
        if function is None:
            raise UnknownName("metric", name, _candidates(workload.namespace))
        return _own(name, label or name, function)
    if not label:
        label = "accuracy" if _is_classification(workload) else "loss"
    function = look_up(workload.namespace, label)
    if _looks_like_metric(function):
        return _own(label, label, function)
    if label in BUILT_IN:
        return _built_in(label, label, workload)
    raise UnknownName("metric", label, _candidates(workload.namespace))


def _name_of(metric: Any, namespace: dict[str, Any]) -> str:
    if isinstance(metric, str):
        return metric
    name = names_by_id(namespace).get(id(metric))
    if name is None:
        raise AccelError(
            f"metric={getattr(metric, '__name__', type(metric).__name__)}",
            because="it is not a variable of this namespace, and a copy of it is looked up there", do=_DO,
        )  # fmt: skip
    return name


def _own(name: str, label: str, function: Any) -> QualityMetric:
    if not callable(function):
        raise AccelError(
            f"--metric {name}", because=f"it is {type(function).__name__}, not a function", do=_DO
        )
    needed = _needed_arguments(function)
    if needed is None or needed > 2:
        raise AccelError(f"--metric {name}", because="it needs more than a model and a loader", do=_DO)
    return QualityMetric(label, name, False, needed)


def _built_in(name: str, label: str, workload: Workload) -> QualityMetric:
    if name == "accuracy":
        return QualityMetric(label, name, True)
    named = [
        role.name
        for role in workload.roles
        if role.kind == "criteria" and look_up(workload.namespace, role.name)
    ]
    if not named:
        raise AccelError(
            "loss on held-out data", because="the cell's criterion is not a variable of the notebook", do=_DO
        )
    return QualityMetric(label, name, True, criterion=named[0])


def _needed_arguments(function: Any) -> int | None:
    """How many positional arguments it cannot do without; None where that cannot be told or others are needed."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    needed = [
        p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    return None if any(p.kind is p.KEYWORD_ONLY for p in needed) else len(needed)


def _looks_like_metric(function: Any) -> bool:
    """Whether a function of the right name takes a model: accuracy(outputs, targets) is another thing."""
    if not inspect.isfunction(function):
        return False
    needed, first = _needed_arguments(function), next(iter(inspect.signature(function).parameters), "")
    return needed == 0 or (needed in (1, 2) and any(word in first.lower() for word in _MODEL_WORDS))


def _candidates(namespace: dict[str, Any]) -> list[str]:
    own = [
        name for name, value in namespace.items() if not name.startswith("_") and _looks_like_metric(value)
    ]
    return [*BUILT_IN, *own]


def _is_classification(workload: Workload) -> bool:
    criteria = [role.class_name for role in workload.roles if role.kind == "criteria"]
    return not criteria or criteria[0] in _CLASSIFYING
