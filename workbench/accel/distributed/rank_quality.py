"""In rank 0, when the cell has trained: how good is the model, on data that it did not see? The other ranks are done by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from accel.errors import AccelError
from accel.workers.evaluating import measured_quality
from accel.workers.messages import QualityQuestion
from accel.workload.workload import look_up


def quality_in_rank(
    question: QualityQuestion, namespace: dict[str, Any], trained: Sequence[Any], beat: Callable[[], object]
) -> tuple[float | None, str]:
    """The metric's value, or why there is none; an error in the user's metric is a reason, and the run's figures stand.

    `trained` are the models that were found in use; `beat` is called with every call of the model: evaluating is no hang.

    >>> quality_in_rank(question, namespace, [model], beat=print)
    (0.93, '')
    """
    import torch

    named = look_up(namespace, question.model)
    model = named if isinstance(named, torch.nn.Module) else _last_that_trains(trained)
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


def _last_that_trains(models: Sequence[Any]) -> Any:
    able = [model for model in models if any(parameter.requires_grad for parameter in model.parameters())]
    return able[-1] if able else None
