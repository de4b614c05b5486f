"""The two metrics that need no function of the user's: share of right answers, and mean loss, over a loader."""

from __future__ import annotations

from typing import Any

from accel.errors import AccelError

_OWN = "Write a function metric(model, loader) that returns one number, and name it with --metric."


def accuracy_on(model: Any, loader: Any, *, ignored: int = -100) -> float:
    """Share of samples whose largest output is the target's; targets of the class `ignored` are left out.

    >>> accuracy_on(model, test_loader)
    0.93

    Raises AccelError where the targets are no class numbers or the outputs no scores by class.
    """
    right: Any = 0
    seen: Any = 0
    for inputs, targets in _pairs(model, loader, "accuracy"):
        answers, counts = _answers(model(inputs), targets), targets != ignored
        right = right + ((answers == targets) & counts).sum()
        seen = seen + counts.sum()
    return float(right) / _at_least_one(int(seen))


def _answers(outputs: Any, targets: Any) -> Any:
    """The class of the largest score: of the dimension that the targets lack, the second (as in a criterion) or the last."""
    shape = tuple(getattr(outputs, "shape", ()))
    dimensions = {
        dimension
        for dimension in (1, len(shape) - 1)
        if len(shape) > 1 and shape[:dimension] + shape[dimension + 1 :] == tuple(targets.shape)
    }
    if targets.dtype.is_floating_point or len(dimensions) != 1:
        raise AccelError(
            "Accuracy on held-out data",
            because="it needs targets that are class numbers, and outputs with a score for each class; "
            f"here targets are {_described(targets)}, outputs {_described(outputs)}"
            + (", in which two dimensions could be the classes" if len(dimensions) > 1 else ""),
            do=_OWN,
        )
    return outputs.argmax(dim=dimensions.pop())


def loss_on(model: Any, loader: Any, criterion: Any) -> float:
    """Mean loss of a sample by the cell's own criterion.

    >>> loss_on(model, test_loader, criterion)
    0.21
    """
    total: Any = 0.0
    seen = 0
    for inputs, targets in _pairs(model, loader, "loss"):
        loss = criterion(model(inputs), targets)
        is_sum = getattr(criterion, "reduction", "mean") == "sum"
        total = total + (loss.sum() if is_sum else loss.mean() * len(targets))
        seen += len(targets)
    return float(total) / _at_least_one(seen)


def _pairs(model: Any, loader: Any, metric: str) -> Any:
    """Inputs and targets of each batch, where the model's parameters are."""
    import torch

    device = next((parameter.device for parameter in model.parameters()), None)
    for batch in loader:
        is_pair = isinstance(batch, (tuple, list)) and len(batch) == 2
        if not is_pair or not all(isinstance(part, torch.Tensor) for part in batch):
            raise AccelError(
                f"The {metric} on held-out data",
                because=f"it needs batches of (inputs, targets), and a batch of this loader is {_described(batch)}",
                do=_OWN,
            )
        inputs, targets = batch
        yield inputs.to(device), targets.to(device)


def _at_least_one(seen: int) -> int:
    if not seen:
        raise AccelError(
            "Quality on held-out data", because="the loader is empty, or all its targets are ignored",
            do="Check its data set, or name another loader with --held-out.",
        )  # fmt: skip
    return seen


def _described(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else type(value).__name__
