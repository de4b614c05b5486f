"""Where the training code waits for the device on the quiet: `.item()`, `.cpu()`, `print(loss)`, with the line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Synchronisation:
    """One call in the user's code that reads a tensor back; `ms` and `calls` are per step."""

    call: str  # "Tensor.item"
    filename: str
    line: int
    text: str  # the line itself
    device: str  # of the tensor: on "cpu" nothing waits
    ms: float
    calls: float
