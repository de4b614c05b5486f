"""Lines of the training code that read a number from a tensor: `total += loss.item()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Number = Literal["float", "int", "bool"]


@dataclass(frozen=True)
class ReadBack:
    """One line that read a number back, what Python got there, and where the tensor lay.

    >>> ReadBack("<ipython-input-3-0f1e>", 7, "float", "cuda:0").waits
    True
    """

    filename: str
    line: int
    number: Number
    device: str

    @property
    def waits(self) -> bool:
        """Whether Python has to wait there until the device has done all it was given."""
        return not self.device.startswith("cpu")
