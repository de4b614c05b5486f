"""What holds a GPU's clocks back, in words: the bits of NVML's clocks event reasons (before: clocks throttle reasons)."""

from __future__ import annotations

from typing import Any

from accel.machine.nvml import asked

IDLE = "idle"
REASONS = {
    0x1: IDLE,
    0x2: "application clocks below the highest",
    0x4: "the power limit",
    0x8: "a hardware slowdown (heat or power)",
    0x10: "sync boost, which keeps a group of GPUs at the slowest one's clock",
    0x20: "heat (slowed down by the driver)",
    0x40: "heat (slowed down by the hardware)",
    0x80: "a power brake from the power supply or the chassis",
    0x100: "the clock of the display",
    0x200: "the board's limit",
    0x400: "the reliability of its voltage",
}
REMEDIES = {
    0x2: "nvidia-smi -q -d CLOCK shows them, -rac and -rgc give the usual ones back",
    0x4: "nvidia-smi -q -d POWER shows the limits, nvidia-smi -pl raises it where the highest allows",
    0x8: "look at cooling and power supply: nvidia-smi -q -d PERFORMANCE,TEMPERATURE",
    0x20: "look at fans, air flow and the room's temperature",
    0x40: "look at fans, air flow and the room's temperature; such times are not worth comparing",
    0x80: "look at the power supply and its cables",
}


def clock_reasons(nvml: Any, handle: Any) -> int | None:
    """The bits that are set now; 0: nothing holds the clocks back; None: not reported by the driver."""
    found = asked(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if found is None:  # drivers before 535
        found = asked(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if found is None else int(found)


def in_words(bits: int) -> tuple[str, ...]:
    """Each reason that is set.

    >>> in_words(0x24)
    ('the power limit', 'heat (slowed down by the driver)')
    """
    known = tuple(words for bit, words in REASONS.items() if bits & bit)
    rest = bits & ~sum(REASONS)
    return (*known, f"a reason with the code {rest:#x}") if rest else known


def remedy_for(words: str) -> str:
    """What to do about a reason; empty where nothing is.

    >>> remedy_for("the power limit").split(",")[0]
    'nvidia-smi -q -d POWER shows the limits'
    """
    return next((REMEDIES.get(bit, "") for bit, reason in REASONS.items() if reason == words), "")
