"""Batches are copied or converted on their way to the model, while the device waits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import milliseconds, percent, size

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.machine.peaks import Peaks
    from accel.profiling.device_activity import CopyRow, DeviceActivity

# Pageable memory is staged through a pinned buffer: NVIDIA measured copies from pinned memory at 2 to 2.5 times the rate
# (https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/); rates measured on this machine replace that figure.
# With non_blocking=True, computation overlaps pinned copies, so the wait can disappear. A conversion on the CPU disappears if it
# is done once, before the loop. But then the batch is no longer in the caches when the model reads it, which can cost most of
# that gain (a speed-up of 1.01 to 1.04 was measured where 1.09 was expected).
PINNED = (1.0, 2.5, GONE)
PINNED_ALREADY = (1.0, 1.5, GONE)
CONVERTED_ONCE = (1.0, 2.0, GONE)
AS_ONE = (1.0, 2.0, GONE)  # many tiny copies, each of which takes the time of its call
IN_CACHES = (1.0, 1.0, 1.02)  # the rest of the step, which keeps more of the caches to itself
LEAST_BYTES = 4096  # per copy; a smaller one is no faster from pinned memory: the call itself takes the time


def copy_bound(evidence: Evidence) -> Finding | None:
    """Time in `.to()`, `.cuda()` and copies to the device that nothing overlaps."""
    device = evidence.device
    is_gpu = device is not None or evidence.on_gpu
    share = max(evidence.share("copy"), _exposed(device) if device else 0.0)
    moved = _to_device(device) if device else []
    if share < LEAST_SHARE:
        return None
    are_tiny = 0 < sum(copy.bytes for copy in moved) < LEAST_BYTES * sum(copy.calls for copy in moved)
    memory = {copy.memory for copy in _to_device(device)} if device else set()
    is_pinned = memory == {"pinned"}
    factors = _on_gpu(device, evidence.profile.peaks, is_pinned) if is_gpu else CONVERTED_ONCE
    factors = AS_ONE if are_tiny else factors
    if not is_gpu:
        how = f"are made once for the whole data set; the rest of the step becomes up to {IN_CACHES[-1]:g} times as fast"
    elif are_tiny:
        how = "become one copy"
    else:
        how = f"{'' if is_pinned else 'come from pinned memory and '}go on during computation"
    return Finding(
        kind="copy_bound",
        title=f"{'Copying to the device' if is_gpu else 'Converting batches'}: {percent(share)} of each step",
        what=f"Each batch is copied{_from(memory)}, and the GPU waits for it." if is_gpu
        else "Each batch is converted to another type or layout in the loop, every epoch anew.",
        share=share,
        evidence=(
            f"in .to() and .cuda(): {milliseconds(evidence.ms('copy'))} a step", *_copies(device),
            *_rates(device, evidence.profile.peaks),
        ),
        prediction=amdahl(
            f"{'copies' if is_gpu else 'conversions'}, {percent(share)} of the step, {how}",
            Part(share, *factors),
            Part(1.0 - share, *((1.0, 1.0, 1.0) if is_gpu else IN_CACHES)),
        ),
        suggests=("pin_memory",) if is_gpu and not is_pinned and not are_tiny and _has_loader(evidence) else (),
        remedy=_remedy(is_pinned, are_tiny=are_tiny) if is_gpu
        else "Convert the tensors once, before the loop or in the data set.",
        wrong_when="the copies overlap with kernels already, or pinned memory is scarce: it cannot be swapped out." if is_gpu
        else "the converted data set would not fit into memory.",
        line=evidence.line_where(_is_copy, in_loop=True),
    )  # fmt: skip


def _has_loader(evidence: Evidence) -> bool:
    """Whether steps take their batches from a DataLoader, which can pin them; of a trace that is not known."""
    return evidence.is_of_trace or evidence.step_loader is not None


def _exposed(device: DeviceActivity) -> float:
    """Copies to the device as a share of the step, as far as the GPU was idle meanwhile."""
    ms = sum(copy.ms for copy in _to_device(device))
    return min(ms / device.step_ms if device.step_ms else 0.0, device.idle_share)


def _copies(device: DeviceActivity | None) -> tuple[str, ...]:
    return tuple(
        f"{copy.kind} from {copy.memory} memory: {f'{size(copy.bytes)} in ' if copy.bytes else ''}"
        f"{milliseconds(copy.ms)} a step"
        for copy in (_to_device(device) if device else ())
    )


def _on_gpu(
    device: DeviceActivity | None, peaks: Peaks | None, is_pinned: bool
) -> tuple[float, float, float]:
    """How many times as fast copies become with pinned memory; from this machine's measured copy rates if there are any."""
    if is_pinned:
        return PINNED_ALREADY
    pinned = peaks.copies.of("cpu", device.device, pinned=True) if device and peaks else None
    if device is None or pinned is None:
        return PINNED
    copies = [copy for copy in _to_device(device) if copy.memory != "pinned" and copy.bytes]
    pinned_ms = sum(
        copy.calls * pinned.small_us / 1e3 + copy.bytes / pinned.bytes_per_s * 1e3 for copy in copies
    )
    if not pinned_ms:
        return PINNED
    return (PINNED[0], max(PINNED[0], min(PINNED[2], sum(copy.ms for copy in copies) / pinned_ms)), PINNED[2])


def _rates(device: DeviceActivity | None, peaks: Peaks | None) -> tuple[str, ...]:
    """The copy rates measured on this machine, to compare with those of the training's copies."""
    if device is None or peaks is None:
        return ()
    rates = {
        memory: peaks.copies.rate("cpu", device.device, pinned=memory == "pinned")
        for memory in ("pinned", "pageable")
    }
    said = [f"{rate / 1e9:.3g} GB/s from {memory} memory" for memory, rate in rates.items() if rate]
    return (f"measured on this machine, to {device.device}: {' and '.join(said)}",) if said else ()


def _to_device(device: DeviceActivity) -> tuple[CopyRow, ...]:
    return tuple(copy for copy in device.copies if copy.kind == "host to device")


def _from(memory: set[str]) -> str:
    return (
        " from pinned memory"
        if memory == {"pinned"}
        else " from pageable memory"
        if "pageable" in memory
        else ""
    )


def _remedy(is_pinned: bool, *, are_tiny: bool) -> str:
    if are_tiny:
        return "Pack the small tensors into one tensor and copy that, or create them on the device."
    if is_pinned:
        return "Copy the next batch while this one is computed: x.to(device, non_blocking=True) within torch.cuda.stream(other)."
    return "DataLoader(…, pin_memory=True), and x.to(device, non_blocking=True) in the loop."


def _is_copy(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "cuda")
    )
