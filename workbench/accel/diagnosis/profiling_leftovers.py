"""Aids for finding faults that were left on: anomaly mode, gradcheck, profilers, debugging variables, determinism."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding, Prediction
from accel.profiling.profiled_window import USER_PROFILES
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.workload.run_conditions import RunConditions

# After each backward node anomaly mode asks of every gradient whether it holds a NaN; in forward it formats a traceback
# for each node. On one core of an EPYC both together made steps of the course CNN and of resnet18 1.3 times as long, and
# those of a small MLP 5.7 times.
NAN_CHECKS = frozenset(
    {"aten::isnan", "aten::ne", "aten::_is_any_true", "aten::any", "aten::item", "aten::_local_scalar_dense"}
)
ONE_A_GRADIENT = ("aten::any", "aten::_is_any_true")
UNTOUCHED = ("data", "copy", "zero_grad", "optimizer", "scaler")
NODE = "autograd::engine::evaluate_function"
OPERATIONS_TIMED = 10
OFF = "cudnn.benchmark off"  # nothing that somebody left on


class _Leftover(NamedTuple):
    name: str
    what: str
    remedy: str
    share: float = 0.0
    line: int = 0
    suggests: tuple[str, ...] = ()


def profiling_leftovers(evidence: Evidence) -> Finding | None:
    """Settings and calls that make a step slower and are there to find faults, not to train."""
    left = [*(_from_trace(evidence) if evidence.is_of_trace else _from_cell(evidence))]
    conditions = evidence.profile.whole_run.conditions
    if conditions is not None:
        left += _from_conditions(evidence, conditions)
    if not left:
        return None
    share = sum(each.share for each in left)
    left_on = ", ".join(each.name for each in left if each.name != OFF)
    title = f"Left on from looking for faults: {left_on}" if left_on else OFF
    return Finding(
        kind="profiling_leftovers",
        title=title + (f", {percent(share)} of each step" if share else ""),
        what=" ".join(each.what for each in left),
        share=share,
        evidence=tuple(f"{each.name}: " + (f"{percent(each.share)} of the step" if each.share else "seen in this run")
                       for each in left),
        prediction=_prediction(evidence, share) if share else None,
        suggests=tuple(name for each in left for name in each.suggests),
        remedy=" ".join(each.remedy for each in left),
        wrong_when="you are looking for a fault right now, or need runs that agree bit for bit.",
        line=next((each.line for each in left if each.line), 0),
    )  # fmt: skip


def _prediction(evidence: Evidence, share: float) -> Prediction:
    """They may be half of that or half as much again, and never more than what anomaly mode touches at all."""
    most = min(1.5 * share, max(share, _touched(evidence)))
    basis = (
        f"NaN checks and tracebacks, {percent(share)} of the step, go; they may be half of that, or up to {percent(most)}: the "
        "checks, and all there is between them and the optimizer"
    )
    highest = amdahl(basis, Part(most, 2.0, GONE, GONE)).high
    return replace(amdahl(basis, Part(share, 2.0, GONE, GONE)), high=highest)


def _touched(evidence: Evidence) -> float:
    """Share of the NaN checks and of everything in which graphs are recorded: forward, loss, and the time between."""
    return min(1.0, _checks(evidence) + max(0.0, 1.0 - evidence.share(*UNTOUCHED, "backward")))


def _from_trace(evidence: Evidence) -> Iterator[_Leftover]:
    """NaN checks after most nodes of backward. What the tracebacks cost shows in the times of forward, unseparated."""
    in_backward = evidence.rows(lambda row: row.phase == "backward")
    nodes = sum(row.calls for row in in_backward if row.op.startswith(NODE))
    checks = sum(row.calls for row in in_backward if row.op in ONE_A_GRADIENT)
    if nodes and checks >= nodes / 2:
        yield _Leftover(
            "anomaly mode",
            "After most operations of backward a gradient is searched for NaN, as autograd's anomaly mode does; it also keeps a "
            "traceback for each operation of forward, which is not in this share.",
            "Take out set_detect_anomaly(True), or detect_anomaly().",
            share=_checks(evidence),
            suggests=("detect_anomaly_off",),
        )  # fmt: skip


def _from_cell(evidence: Evidence) -> Iterator[_Leftover]:
    if any(note.startswith(USER_PROFILES[:1].upper() + USER_PROFILES[1:]) for note in evidence.profile.notes):
        yield _Leftover(
            "torch.profiler", "The cell runs torch.profiler itself, which costs about 0.4 to 2 µs an operation.",
            "Take torch.profiler out of the cell: %%accel profile reads the same events.",
            line=evidence.line_where(lambda node: _ends_in(node, "profile")),
        )  # fmt: skip
    if evidence.mentions("gradcheck", "gradgradcheck"):
        yield _Leftover(
            "gradcheck", "gradcheck runs the function once for every input value, in float64.",
            "Move gradcheck into a test, out of the training cell.",
            line=evidence.line_where(lambda node: _ends_in(node, "gradcheck", "gradgradcheck")),
        )  # fmt: skip


def _from_conditions(evidence: Evidence, conditions: RunConditions) -> Iterator[_Leftover]:
    if conditions.anomaly_mode:
        yield _Leftover(
            "anomaly mode",
            "Autograd's anomaly mode keeps a traceback for each operation of forward and looks for NaN in every gradient.",
            "Take out set_detect_anomaly(True), or detect_anomaly().",
            share=_anomaly_share(evidence),
            line=evidence.line_where(lambda node: _ends_in(node, "set_detect_anomaly", "detect_anomaly")),
            suggests=("detect_anomaly_off",),
        )  # fmt: skip
    if conditions.deterministic:
        yield _Leftover(
            "deterministic algorithms",
            "torch.use_deterministic_algorithms(True) rules out the faster kernels of some operations, and fills new memory.",
            "Take out torch.use_deterministic_algorithms(True), or set torch.utils.deterministic.fill_uninitialized_memory = "
            "False.",
            line=evidence.line_where(lambda node: _ends_in(node, "use_deterministic_algorithms")),
        )  # fmt: skip
    if evidence.on_gpu and conditions.cudnn_deterministic:
        yield _Leftover(
            "cudnn.deterministic", "torch.backends.cudnn.deterministic = True rules out the faster convolutions.",
            "Set torch.backends.cudnn.deterministic = False.",
        )  # fmt: skip
    if evidence.on_gpu and not conditions.cudnn_benchmark and _has_convolutions(evidence):
        yield _Leftover(
            OFF, "cuDNN chooses each convolution by rule; with one shape of batch it could measure once.",
            "Set torch.backends.cudnn.benchmark = True (where batches keep one shape: drop_last=True).",
            suggests=("cudnn_benchmark",),
        )  # fmt: skip
    for name, value in conditions.debugging:
        yield _Leftover(
            f"{name}={value}", f"{name}={value} is set in the environment.",
            f"Unset {name} and restart the kernel.",
        )  # fmt: skip


def _anomaly_share(evidence: Evidence) -> float:
    """NaN checks as traced, and for each backward node the traceback that its forward formatted, which is timed here."""
    nodes = sum(row.calls for row in evidence.rows(lambda row: row.op.startswith(NODE)))
    tracebacks = nodes * _traceback_ms() / evidence.traced_step_ms
    return min(_checks(evidence) + tracebacks, 0.95 * _touched(evidence))


def _checks(evidence: Evidence) -> float:
    return evidence.share_of_ops(lambda row: row.phase == "backward" and row.op in NAN_CHECKS)


def _traceback_ms() -> float:
    """What anomaly mode adds to an operation; it grows with the depth of the call, which here is a little less."""
    import torch

    number = torch.zeros(1, device="cpu", requires_grad=True)

    def least_ms(on: bool) -> float:
        times = []
        with torch.autograd.set_detect_anomaly(on):
            for _ in range(OPERATIONS_TIMED):
                begun = perf_counter()
                torch.relu(number)
                times.append((perf_counter() - begun) * 1e3)
        return min(times)

    return max(0.0, least_ms(True) - least_ms(False))


def _ends_in(node: ast.AST, *names: str) -> bool:
    """Whether a call's function ends in one of the names."""
    called = node.func if isinstance(node, ast.Call) else None
    return (getattr(called, "attr", None) or getattr(called, "id", None)) in names


def _has_convolutions(evidence: Evidence) -> bool:
    return bool(evidence.rows(lambda row: "convolution" in row.op))
