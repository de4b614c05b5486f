"""FLOPs and bytes of operations, from their input shapes (`--shapes`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.attribution import COMPILED
from accel.profiling.device_work import Copied, what_was_copied
from accel.profiling.op_formulas import NOTHING, CallCost, call_cost
from accel.profiling.op_inputs import OpInputs, calls_others

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Ints
    from accel.profiling.profiled_events import ProfiledEvents

# Tools that count in a dispatch mode give 0 under inference_mode and triple under torch.compile; shapes of what ran do not.
METHOD = "formulas on the recorded shapes of eager operations; a multiply-add counts as two; compiled code is not known"
NO_OPERATION = ("accel::", "accel.", "autograd::", "torch::autograd::")
# Phase, module, number of the inputs, device, whether its work is that of a part of it, what it copied.
Key = tuple[str, str, int, str, bool, Copied | None]


@dataclass(frozen=True)
class OpCost:
    """What one operation computes and moves, per step, in one phase and module and with one set of input shapes.

    `flops` counts a multiply-add as two; None where no formula is known. `bytes` is each input read once and each output
    written once: the least the operation can move. `self_ms` is the same self time that the operation's row has,
    `device_ms` the time of the kernels it launched on `device`. An operation that only calls others has 0 of both.
    """

    op: str
    phase: str
    module: str
    shapes: str  # "[64, 1, 28, 28] × [32, 1, 3, 3]"
    dtype: str  # of the first tensor: "float32"
    calls: float
    self_ms: float
    flops: float | None
    bytes: float | None
    device: str = "cpu"
    device_ms: float = 0.0
    copied: Copied | None = None  # between which kinds of device, where it launched a copy

    @property
    def ms(self) -> float:
        """Time of the work itself: on the device where it ran there, else on the CPU."""
        return self.self_ms if self.device == "cpu" else self.device_ms

    def __str__(self) -> str:
        known = "cost not known" if self.flops is None else f"{self.flops / 1e6:,.3g} MFLOP"
        moved = "" if self.bytes is None else f", {self.bytes / 1e6:,.3g} MB"
        return f"{self.op} {self.shapes} {self.dtype}: {known}{moved} in {self.ms:.3g} ms"


def read_op_costs(events: ProfiledEvents | None) -> tuple[OpCost, ...]:
    """Costs of all operations of the profiled steps, longest first; empty when shapes were not recorded.

    >>> read_op_costs(profile.events)[0]

    Where operations nest, work counts once, for the innermost that does it. Averages are per step, as those of the rows.
    """
    if events is None or events.columns.inputs is None:
        return ()
    found, inputs = events.found, events.columns.inputs
    cost = _costs_of_calls(events)
    on_device, device = _device_time(events)
    copied = _copied(events)
    sums: dict[Key, list[float]] = {}
    names, name = events.columns.names, events.columns.name.tolist()
    inside, self_ns, device_ns = events.begins_inside.tolist(), events.self_ns.tolist(), on_device.tolist()
    for i, number in enumerate(inputs.number.tolist()):
        if not (inside[i] or self_ns[i] or device_ns[i]) or not _has_cost(names[name[i]], number):
            continue
        key = (found.phase[i], found.module[i], number, device[i], cost[i] is NOTHING, copied.get(i))
        total = sums.setdefault(key, [0.0, 0.0, 0.0])
        total[0] += inside[i]
        total[1] += self_ns[i]
        total[2] += device_ns[i]
    return _rows(sums, inputs.distinct, events.kept.steps)


def _has_cost(name: str, number: int) -> bool:
    """Operations with inputs; compiled code too, so that it is seen to be of unknown cost."""
    return COMPILED in name or (number >= 0 and _is_operation(name))


def _is_operation(name: str) -> bool:
    return "::" in name and not name.startswith(NO_OPERATION)


def _costs_of_calls(events: ProfiledEvents) -> list[CallCost | None]:
    """The cost of every event: that of its formula, nothing when a part of it does the same work, None if unknown."""
    inputs = events.columns.inputs
    assert inputs is not None
    by_number = [call_cost(one) for one in inputs.distinct]
    parent = events.columns.parent.tolist()
    cost = [by_number[number] if number >= 0 else None for number in inputs.number.tolist()]
    names, name = events.columns.names, events.columns.name.tolist()
    result = list(cost)
    for i, own in enumerate(cost):
        if own is NOTHING or inputs.number[i] < 0 or not _is_operation(names[name[i]]):
            continue
        above = parent[i]
        while above >= 0:
            if _is_done_below(cost[above], own, names[name[above]]):
                result[above] = NOTHING
            above = parent[above]
    return result


def _is_done_below(outer: CallCost | None, inner: CallCost | None, outer_name: str) -> bool:
    """Whether an operation's work is that of one it called."""
    if outer is None:
        return _is_operation(outer_name) and calls_others(outer_name)
    return inner is not None and outer.family == inner.family


def _device_time(events: ProfiledEvents) -> tuple[Ints, NDArray[np.object_]]:
    """For each operation the time of the kernels it launched, and the device they ran on: "cpu" when there are none."""
    import numpy as np

    columns = events.columns
    launched = (columns.launcher >= 0) & (columns.device >= 0)
    launcher = columns.launcher[launched]
    time = np.bincount(launcher, weights=events.duration_ns[launched], minlength=len(columns))
    device = np.full(len(columns), "cpu", dtype=object)
    names = {number: columns.device_name(number) for number in np.unique(columns.device[launched]).tolist()}
    device[launcher] = [names[number] for number in columns.device[launched].tolist()]
    return time.astype(np.int64), device


def _copied(events: ProfiledEvents) -> dict[int, Copied]:
    """For each operation that launched a copy, between which kinds of device."""
    import numpy as np

    columns = events.columns
    kinds = [index for index, kind in enumerate(columns.kinds) if kind == "gpu_memcpy"]
    launched = np.flatnonzero((columns.launcher >= 0) & np.isin(columns.kind, kinds))
    return {int(columns.launcher[row]): what_was_copied(columns.names[columns.name[row]]) for row in launched}


def _rows(sums: dict[Key, list[float]], distinct: tuple[OpInputs, ...], steps: int) -> tuple[OpCost, ...]:
    rows = []
    for (phase, module, number, device, is_nothing, copied), (calls, self_ns, device_ns) in sums.items():
        inputs = distinct[number] if number >= 0 else OpInputs(COMPILED, ())
        one = NOTHING if is_nothing else call_cost(inputs)
        times = calls / steps
        rows.append(OpCost(
            inputs.op, phase, module, str(inputs), inputs.tensors[0].dtype if inputs.tensors else "", times,
            self_ns / steps / 1e6, None if one is None else one.flops * times, None if one is None else one.bytes * times,
            device, device_ns / steps / 1e6, copied,
        ))  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -row.ms))
