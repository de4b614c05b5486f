"""The course: `accel.labs()` lists its labs; here are its models and data sets by name.

>>> from accel.labs import CNN, load_dataset
>>> model, train_set = CNN(), load_dataset("digits")

course/      what a notebook of the course works with: Lab; progress, grades
chapters/    a file a chapter: its guesses, tables, diagrams and exercises
exercises/   the checks of exercises, which measure
quiz/        questions, read from quizzes/ and marked
recorded/    results of hardware that a reader may lack
Worked examples, functions for RankPool.run: tensor_parallel.py, pipeline_parallel.py, sharded_training.py.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from accel.callable_package import CallablePackage

if TYPE_CHECKING:
    from accel.labs.datasets import load_dataset
    from accel.labs.image_set import ImageSet
    from accel.labs.models import CNN, load_model

sys.modules[__name__].__class__ = CallablePackage

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
