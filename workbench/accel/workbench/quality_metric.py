"""Which metric is meant: a function of the notebook, or one of the two that are built in."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from typing import Any

from accel.errors import AccelError, UnknownName
from accel.workbench.quality_request import QualityRequest
from accel.workload.roles import names_by_id
from accel.workload.workload import Workload, look_up

BUILT_IN = ("accuracy", "loss")
_MODEL_WORDS = ("model", "net", "module", "classifier")
_LOWER_IS_BETTER = re.compile(
    "loss|losses|err|errors?|wrong|mse|mae|rmse|mape|distance|divergence|perplexity|ppl|nll|bpc|bpb|kl|entropy|"
    "wer|cer|fid|brier|ece"
)
_HIGHER_IS_BETTER = re.compile(
    "acc|accuracy|share|right|correct|score|quality|precision|recall|f1|auc|auroc|ap|map|iou|miou|dice|bleu|rouge|"
    "r2|psnr|ssim"
)
_TURNS_IT_ROUND = re.compile("neg|negative|inverse|minus|non|no")
_CLASSIFYING = ("CrossEntropyLoss", "NLLLoss")
_DO = "Define it in a cell of its own as metric(model, loader) or metric(model), returning one number."


@dataclass(frozen=True)
class QualityMetric:
    """A metric: what results call it, the function behind it, and what it is called with.

    `name` is the function's in the namespace, or a built-in's; `criterion` is the cell's own: "loss" is its mean, and
    "accuracy" leaves out the targets that it ignores.
    """

    label: str
    name: str
    is_built_in: bool
    arguments: int = 2
    criterion: str = ""
    is_higher_better: bool = True

    @property
    def needs_loader(self) -> bool:
        """Whether it is called with held-out data."""
        return self.is_built_in or self.arguments > 1

    def described(self, model: str, held_out: str) -> str:
        """One line on how it is measured."""
        if self.is_built_in:
            what = "share of right answers" if self.name == "accuracy" else f"mean of {self.criterion}"
            what += f" on {held_out}"
        else:
            what = f"your function {self.name}({', '.join([model, held_out][: self.arguments])})"
        better = "higher" if self.is_higher_better else "lower"
        return f"{self.label}: {what}, with the model in evaluation mode; {better} is better."


def find_metric(request: QualityRequest, workload: Workload) -> QualityMetric:
    """The metric that is named, or that fits the target's name, or the training's criterion.

    >>> find_metric(QualityRequest.of(until="accuracy>=0.95"), workload)
    QualityMetric(label='accuracy', name='accuracy', is_built_in=True, ...)

    Raises AccelError where nothing tells whether higher or lower values are better.
    """
    found = _metric(request, workload)
    return replace(found, is_higher_better=_is_higher_better(found.label, request))


def _is_higher_better(label: str, request: QualityRequest) -> bool:
    """By the target's sign, by what was said, or else by the words of the name."""
    if request.target is not None:
        return request.target.is_at_least
    if request.better is not None:
        return request.better == "higher"
    words = re.findall(r"[a-z]+\d*", re.sub(r"([a-z])([A-Z])", r"\1_\2", label).lower())
    is_lower, is_higher, is_unclear = (
        any(map(known.fullmatch, words)) for known in (_LOWER_IS_BETTER, _HIGHER_IS_BETTER, _TURNS_IT_ROUND)
    )
    if is_lower == is_higher or is_unclear:
        raise AccelError(
            f"--train-s with --metric {label}",
            because="its name does not tell whether higher or lower values are better",
            do="Add --better lower or --better higher.",
        )
    return is_higher


def _metric(request: QualityRequest, workload: Workload) -> QualityMetric:
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
    named = [
        role.name
        for role in workload.roles
        if role.kind == "criteria" and look_up(workload.namespace, role.name)
    ]
    if not named and name == "loss":
        raise AccelError(
            "loss on held-out data", because="the cell's criterion is not a variable of the notebook", do=_DO
        )
    return QualityMetric(label, name, True, criterion=named[0] if named else "")


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
