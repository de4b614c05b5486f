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
    pynvml = _imported()
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


def asked_text(nvml: Any, question: str, *arguments: Any) -> str | None:
    """The same where the answer is a text, which older versions of `pynvml` give as bytes."""
    found = asked(nvml, question, *arguments)
    return found.decode() if isinstance(found, bytes) else None if found is None else str(found)


def device_name(nvml: Any, handle: Any) -> str:
    """A GPU's name."""
    return asked_text(nvml, "nvmlDeviceGetName", handle) or "a GPU without a name"


def short_bus_id(bus_id: bytes | str) -> str:
    """A bus id as /sys writes it.

    >>> short_bus_id(b"00000000:3B:00.0")
    '0000:3b:00.0'
    """
    text = bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
    domain, _, rest = text.strip("\0").lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}"  # /sys writes four digits or more: 10000 behind Intel's VMD


def why_silent() -> str | None:
    """Why no driver answers, in words; None where one does.

    >>> why_silent()
    'no NVIDIA driver answers (NVML Shared Library Not Found)'
    """
    pynvml = _imported()
    if pynvml is None:
        return "pynvml is not installed (pip install nvidia-ml-py)"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as reason:
        return f"no NVIDIA driver answers ({reason})"
    pynvml.nvmlShutdown()
    return None


def _imported() -> Any | None:
    with warnings.catch_warnings():
        # The redirecting `pynvml` distribution warns on import.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import pynvml
        except ImportError:
            return None
    return pynvml


def _answers(nvml: Any) -> bool:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return False
    return True
