"""Phases in words, as the report, the figures and the panels name them."""

from __future__ import annotations

PHASE_WORDS = {
    "data": "Waiting for data",
    "copy": "Copying to the device",
    "forward": "Forward",
    "loss": "Loss",
    "backward": "Backward",
    "recompute": "Recomputed forward",
    "zero_grad": "Clearing gradients",
    "optimizer": "Optimizer",
    "closure": "Closure (other code)",
    "scaler": "Gradient scaler",
}
NO_MODULE = "(outside any module)"


def phase_words(name: str) -> str:
    """A phase as a reader would say it; a gap names what it lies between.

    >>> phase_words("data"), phase_words("forward → backward")
    ('Waiting for data', 'Between forward and backward')
    """
    before, arrow, after = name.partition(" → ")
    if arrow:
        return f"Between {before} and {after}"
    return PHASE_WORDS.get(name, name)


def place_words(phase: str, module: str) -> str:
    """Phase and module; the phase alone of what lies outside any module.

    >>> place_words("forward", "head.fc"), place_words("data", "")
    ('Forward · head.fc', 'Waiting for data')
    """
    return f"{phase_words(phase)} · {module}" if module else phase_words(phase)
