"""The course's model and data sets by name.

>>> from accel.labs import CNN, load_dataset
>>> model, train_set = CNN(), load_dataset("digits")

Worked examples, functions for RankPool.run: tensor_parallel.py, pipeline_parallel.py, sharded_training.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.labs.datasets import load_dataset
    from accel.labs.image_set import ImageSet
    from accel.labs.models import CNN

__all__ = ["CNN", "ImageSet", "load_dataset"]


def __getattr__(name: str) -> Any:
    """Import torch only when a model or a data set is asked for."""
    if name == "CNN":
        from accel.labs.models import CNN

        return CNN
    if name == "ImageSet":
        from accel.labs.image_set import ImageSet

        return ImageSet
    if name == "load_dataset":
        from accel.labs.datasets import load_dataset

        return load_dataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
