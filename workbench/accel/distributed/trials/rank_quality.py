"""In rank 0, when the cell has trained: how good is the model, on data that it did not see? The other ranks are done by then."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from accel.errors import AccelError
from accel.workers.evaluating import measured_quality
from accel.workers.messages import QualityQuestion
from accel.workload.workload import look_up


def quality_in_rank(
    question: QualityQuestion,
    namespace: dict[str, Any],
    trained: Sequence[Any],
    stepped: Container[int],
    beat: Callable[[], object],
) -> tuple[float | None, str]:
    """The metric's value, or why there is none; an error in the user's metric is a reason, and the run's figures stand.

    `trained` are the models that were found in use, `stepped` the ids of what optimizers updated: a teacher that only answers is
    not judged, though the cell names it first. `beat` is called with every call of the model: evaluating is no hang.

    >>> quality_in_rank(question, namespace, [model], {id(p) for p in model.parameters()}, beat=print)
    (0.93, '')
    """
    import torch

    named = look_up(namespace, question.model)
    model = named if isinstance(named, torch.nn.Module) else None
    if model is None or not _updated(model, stepped):
        model = max(reversed(trained), key=lambda each: _updated(each, stepped), default=model)
    if model is None:
        return None, "the cell trained no model that was found"
    modes = {module: module.training for module in model.modules()}
    alive = model.register_forward_pre_hook(lambda *_: beat() and None)
    try:
        model.eval()
        with torch.no_grad():
            value = measured_quality(question, namespace, model)
    except AccelError as error:
        return None, error.because
    except Exception as error:
        return None, f"the metric raised {type(error).__name__}: {error}"
    finally:
        alive.remove()
        for module, was_training in modes.items():
            module.training = was_training
    if value != value or abs(value) == float("inf"):
        return None, f"the metric gave {value}"
    return value, ""


def _updated(model: Any, stepped: Container[int]) -> int:
    """How many of its parameters an optimizer updated."""
    return sum(id(parameter) in stepped for parameter in model.parameters())
