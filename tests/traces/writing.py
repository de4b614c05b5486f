"""Trace files as torch.profiler writes them, made by hand or from recorded events."""

from __future__ import annotations

import gzip
import json

HEAD = {
    "schemaVersion": 1, "deviceProperties": [], "host_name": "node7", "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1_790_000_000_000_000_000,
}  # fmt: skip
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "computeMajor": 9}
START_US = 4_439_276_532_000.0


def span(name, ts, dur, *, cat="cpu_op", tid=100, pid=100, **args):
    """A complete event; keywords are arguments under torch's own names, with _ for blanks."""
    named = {NAMES.get(key, key): value for key, value in args.items()}
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": START_US + ts, "dur": dur, "args": named
    }  # fmt: skip


NAMES = {"external": "External id", "sequence": "Sequence number", "forward": "Fwd thread id"}


def training_events(steps=4):
    """Per step, in µs: data 0–100, forward 110–400, backward 450–800, optimizer 820–900; 1,000 a step."""
    events = []
    for step in range(steps):
        at, number = 1000.0 * step, 10 * step
        events += [
            span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 100.0, cat="user_annotation"),
            span("aten::linear", at + 110, 140.0, sequence=number, forward=0),
            span("aten::addmm", at + 120, 120.0, sequence=number, forward=0),
            span("aten::nll_loss", at + 300, 100.0, sequence=number + 1, forward=0),
            span("autograd::engine::evaluate_function: NllLossBackward0", at + 450, 100.0, sequence=number + 1, forward=1),
            span("autograd::engine::evaluate_function: AddmmBackward0", at + 560, 240.0, sequence=number, forward=1),
            span("aten::mm", at + 570, 200.0),
            span("Optimizer.step#Adam.step", at + 820, 80.0, cat="user_annotation"),
            span("aten::add_", at + 830, 50.0),
        ]  # fmt: skip
    return events


def trace(events, **head):
    """The whole document."""
    return {**HEAD, **head, "traceEvents": events, "traceName": "trace.json"}


def write(path, document):
    """Write a document, bytes or text; compressed where the name says so."""
    if not isinstance(document, (bytes, str)):
        document = json.dumps(document, indent=1)
    content = document.encode() if isinstance(document, str) else document
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def as_torch_writes(recorded, *, base_us=START_US):
    """Events of `tests.profiling.recorded_event` as kineto's JSON has them."""
    return [_as_json(event, base_us) for event in recorded]


def _as_json(event, base_us):
    kind, on_device = event.activity_type(), event.device_type() != 0
    is_op = kind in ("cpu_op", "user_annotation")
    args = {"External id": event.correlation_id() if is_op else event.linked_correlation_id()}
    if event.sequence_nr() >= 0:
        args |= {"Sequence number": event.sequence_nr(), "Fwd thread id": event.fwd_thread_id()}
    if not is_op:
        args["correlation"] = event.correlation_id()
    if on_device:
        args |= {"device": event.device_index(), "context": 1, "stream": event.device_resource_id()}
    if on_device and event.bytes:
        args |= {"bytes": event.bytes, "memory bandwidth (GB/s)": 1.5}
    return {
        "ph": "X", "cat": kind, "name": event.name(), "pid": event.device_index() if on_device else 100,
        "tid": event.device_resource_id() if on_device else event.start_thread_id(),
        "ts": base_us + event.start_ns() / 1000, "dur": event.duration_ns() / 1000, "args": args,
    }  # fmt: skip
