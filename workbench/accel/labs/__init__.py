"""The course: its models and data sets by name, its quizzes (`accel.labs.quiz`).

>>> from accel.labs import CNN, load_dataset
>>> model, train_set = CNN(), load_dataset("digits")

Worked examples, functions for RankPool.run: tensor_parallel.py, pipeline_parallel.py, sharded_training.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.labs.datasets import load_dataset
    from accel.labs.image_set import ImageSet
    from accel.labs.models import CNN, load_model

__all__ = ["CNN", "ImageSet", "load_dataset", "load_model"]

_ELSEWHERE = {
    "CNN": "accel.labs.models",
    "ImageSet": "accel.labs.image_set",
    "load_dataset": "accel.labs.datasets",
    "load_model": "accel.labs.models",
}


def __getattr__(name: str) -> Any:
    """Import torch only when a model or a data set is asked for."""
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
