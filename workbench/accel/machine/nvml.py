"""The NVIDIA driver's library, opened for as long as it is asked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def opened_nvml() -> Iterator[Any | None]:
    """The module `pynvml`, initialised; None where it is not installed or no driver answers.

    >>> with opened_nvml() as nvml:
    ...     count = nvml.nvmlDeviceGetCount() if nvml is not None else 0
    """
    with warnings.catch_warnings():
        # The redirecting `pynvml` distribution warns on import.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import pynvml
        except ImportError:
            pynvml = None
    if pynvml is None or not _answers(pynvml):
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def asked(nvml: Any, question: str, *arguments: Any) -> Any | None:
    """The driver's answer, or None where this GPU, driver or `pynvml` does not know the question.

    >>> asked(nvml, "nvmlDeviceGetPowerUsage", handle)
    71432
    """
    try:
        return getattr(nvml, question)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def device_name(nvml: Any, handle: Any) -> str:
    """A GPU's name, which older drivers give as bytes."""
    name = nvml.nvmlDeviceGetName(handle)
    return name.decode() if isinstance(name, bytes) else str(name)


def _answers(nvml: Any) -> bool:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return False
    return True
