"""The profiled steps as a trace file for Perfetto and chrome://tracing, in the form that torch.profiler writes."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from accel.errors import AccelError
from accel.profiling.timeline_rows import thread_labels

if TYPE_CHECKING:
    from accel.profiling.profile_data import ProfileData
    from accel.profiling.profiled_events import ProfiledEvents

ENDINGS = (".json", ".json.gz")


def write_chrome_trace(profile: ProfileData, path: str | Path) -> Path:
    """Write it, compressed where the name ends in .gz; gives the path.

    >>> profile.to_chrome_trace("step.json.gz")     # opens in ui.perfetto.dev, and with %accel open

    Each operation's `args` hold its phase, its module and, with `--stacks`, its line; kernels are linked to the operation
    that launched them. The ranges `accel::<phase>` and `accel.module::<name>` are kept: read again, nothing is lost.
    """
    path, asked = Path(path), f'to_chrome_trace("{path}")'
    if profile.events is None:
        raise AccelError(
            asked,
            because="this profile holds no events",
            do="The notes of the profile say why; profile again.",
        )
    if not path.name.endswith(ENDINGS):
        raise AccelError(
            asked,
            because="a trace viewer knows a trace by its ending",
            do=f"Use {' or '.join(ENDINGS)}.",
        )
    if not path.parent.is_dir():
        raise AccelError(asked, because=f"there is no folder {path.parent}", do="Make it, or name another.")
    with gzip.open(path, "wb", compresslevel=4) if path.suffix == ".gz" else path.open("wb") as file:
        file.writelines(_pieces(profile, profile.events))
    return path


def _pieces(profile: ProfileData, events: ProfiledEvents) -> Iterator[bytes]:
    """The file event by event: a long trace as one string would need its size in memory twice."""
    encode = msgspec.json.Encoder().encode
    about = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "accel": {"machine": profile.machine_line, "versions": dict(profile.versions)},
    }
    yield encode(about)[:-1] + b',"traceEvents":[\n'
    for number, event in enumerate((*_names_of_rows(events), *_events(events))):
        yield (b",\n" if number else b"") + encode(event)
    yield b"\n]}\n"


def _names_of_rows(events: ProfiledEvents) -> Iterator[dict[str, Any]]:
    labels = thread_labels(events)
    yield _metadata("process_name", {"name": "Python"}, pid=0, tid=0)
    for order, (thread, label) in enumerate(labels.items()):
        yield _metadata("thread_name", {"name": label}, pid=0, tid=thread)
        yield _metadata("thread_sort_index", {"sort_index": order}, pid=0, tid=thread)
    columns = events.columns
    for device in sorted({d for d in columns.device.tolist() if d >= 0}):
        yield _metadata("process_name", {"name": f"GPU {device}"}, pid=_gpu(device), tid=0)
    streams = sorted(
        {(d, s) for d, s in zip(columns.device.tolist(), columns.stream.tolist(), strict=True) if s >= 0}
    )
    for device, stream in streams:
        yield _metadata("thread_name", {"name": f"stream {stream}"}, pid=_gpu(device), tid=stream)


def _metadata(name: str, args: dict[str, Any], *, pid: int, tid: int) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _gpu(device: int) -> int:
    """Rows are grouped by process id; 0 is the CPU."""
    return device + 1


def _events(events: ProfiledEvents) -> Iterator[dict[str, Any]]:
    columns, found = events.columns, events.found
    begin = int(columns.start_ns.min())
    plain = zip(
        (columns.names[i] for i in columns.name.tolist()),
        (columns.kinds[i] for i in columns.kind.tolist()),
        (columns.start_ns - begin).tolist(), columns.duration_ns.tolist(), columns.thread.tolist(),
        columns.device.tolist(), columns.stream.tolist(), strict=True,
    )  # fmt: skip
    for i, (name, kind, start, lasts, thread, device, stream) in enumerate(plain):
        on_device = stream >= 0
        yield {
            "ph": "X", "cat": kind, "name": name, "ts": start / 1e3, "dur": lasts / 1e3,
            "pid": _gpu(device) if on_device else 0, "tid": stream if on_device else thread,
            "args": {"phase": found.phase[i], "module": found.module[i], **_links(events, i, on_device)},
        }  # fmt: skip


def _links(events: ProfiledEvents, i: int, on_device: bool) -> dict[str, Any]:
    """What joins an event to others, under torch's own names."""
    columns = events.columns
    launcher, correlation, sequence = (
        int(columns.launcher[i]),
        int(columns.correlation[i]),
        int(columns.sequence[i]),
    )
    links: dict[str, Any] = {"External id": (launcher if launcher >= 0 else i) + 1}
    if correlation:
        links["correlation"] = correlation
    if on_device:
        links |= {"device": int(columns.device[i]), "stream": int(columns.stream[i])}
        links |= {"bytes": int(columns.bytes[i])} if columns.bytes[i] else {}
    if events.line is not None and events.line[i] >= 0:
        links["line"] = f"{(line := events.lines[events.line[i]])}: {line.text}"
    if sequence >= 0:
        links |= {"Sequence number": sequence, "Fwd thread id": int(columns.forward_thread[i])}
    return links
