"""Where a trace is from: its file, its machine, its rank; and, where torch.profiler did not write it, which tool did."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.errors import AccelError
from accel.shown_text import one_line

LONGEST_WORD, SHOWN_KINDS = 100, 4


@dataclass(frozen=True)
class TraceSource:
    """What the file says of itself; `bytes` are unpacked, `world_size` and `rank` are None for a run of one process.

    >>> print(report.source)
    trace.json.gz · 12,345 events, 4.6 MiB · host node7 · NVIDIA H100 80GB HBM3 · rank 2 of 8
    """

    path: str = ""
    bytes: int = 0
    events: int = 0
    host: str = ""
    gpus: tuple[str, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    base_ns: int = 0  # what the trace's clock counts from
    is_ours: bool = False
    process: str = ""  # of a file that holds several: whose events these are

    def __str__(self) -> str:
        from accel.units import size

        kinds = {name: self.gpus.count(name) for name in self.gpus}
        parts = [
            one_line(Path(self.path).name),
            f"process {self.process}" if self.process else "",
            f"{self.events:,} events, {size(self.bytes)}",
            f"host {self.host}" if self.host else "",
            *[f"{count} × {name}" if count > 1 else name for name, count in kinds.items()][:SHOWN_KINDS],
            f"{len(kinds) - SHOWN_KINDS} more kinds of GPU" if len(kinds) > SHOWN_KINDS else "",
            ""
            if self.rank is None
            else f"rank {self.rank}" + (f" of {self.world_size}" if self.world_size else ""),
        ]
        return " · ".join(part for part in parts if part)


def read_source(
    path: Path, header: Mapping[str, Any], *, read_bytes: int, events: int, is_ours: bool, process: str = ""
) -> TraceSource:
    """Read the head of a trace; a field of a type that torch does not write is as if it were not there.

    If a file holds several processes, the rank in its head belongs to none.
    """
    info = header.get("distributedInfo")
    distributed: Mapping[str, Any] = info if isinstance(info, dict) and not process else {}
    listed = header.get("deviceProperties")
    gpus = (
        [_word(gpu.get("name", "")) for gpu in listed if isinstance(gpu, dict)]
        if isinstance(listed, list)
        else []
    )
    return TraceSource(
        path=str(path), bytes=read_bytes, events=events, host=_word(header.get("host_name", "")),
        gpus=tuple(filter(None, gpus)), rank=_count(distributed.get("rank")),
        world_size=_count(distributed.get("world_size")), backend=_word(distributed.get("backend", "")),
        base_ns=_count(header.get("baseTimeNanoseconds")) or 0, is_ours=is_ours, process=process,
    )  # fmt: skip


def _word(value: Any) -> str:
    return one_line(str(value), LONGEST_WORD)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else None


# What the head of the file, the categories of its events, or their names give away.
BY_KEY = {
    "viztracer_metadata": "VizTracer", "$schema": "speedscope", "profiles": "speedscope", "memray": "memray",
    "nodes": "a CPU profile of V8", "resourceSpans": "OpenTelemetry", "lintime": "memray",
    "rocprofiler-sdk-tool": "rocprofv3 (record with --output-format pftrace and open the file in ui.perfetto.dev)",
    "device_traces": "torch's memory profiler (open the snapshot at docs.pytorch.org/memory_viz)",
}  # fmt: skip
BY_CATEGORY = {
    "FEE": "VizTracer", "disabled-by-default": "Chrome or Chromium", "devtools.timeline": "Chrome or Chromium", "v8": "V8",
    "blink": "Chrome or Chromium", "toplevel": "Chrome or Chromium", "__metadata": "Chrome or Chromium",
    "Node": "ONNX Runtime", "Session": "ONNX Runtime", "Op": "TensorFlow", "XLA": "XLA (JAX or TensorFlow)",
    "GROUP_API": "NCCL's own profiler", "dask": "Dask", "Source": "Clang (-ftime-trace)",
}  # fmt: skip
BY_NAME = {
    "Total ExecuteCompiler": "Clang (-ftime-trace)", "TracingStartedInBrowser": "Chrome or Chromium",
    "hipLaunchKernel": "ROCm's rocprof", "hipModuleLaunchKernel": "ROCm's rocprof", "hsa_init": "ROCm's rocprof",
}  # fmt: skip
DO = "accel reads what torch.profiler writes, for example by prof.export_chrome_trace('trace.json.gz')."


def refuse_without_events(path: Path, header: Mapping[str, Any]) -> AccelError:
    """The error for a file that has no list of events at all."""
    looks = next((tool for key, tool in BY_KEY.items() if key in header), "")
    because = "it has no list of trace events" + (f"; it looks like {looks}" if looks else "")
    return AccelError(f"open {path}", because=because, do=DO)


def refuse_other_tool(
    path: Path, header: Mapping[str, Any], categories: Collection[str], names: Collection[str], seen: int
) -> AccelError:
    """The error for a trace in which nothing is torch's work; `seen` is how many events there were."""
    if not seen:
        return AccelError(
            f"open {path}",
            because="the trace is empty: its list of events has none",
            do="Let the profiler run for a few steps before it is stopped; with a schedule, call prof.step() in each.",
        )
    looks = [tool for key, tool in BY_KEY.items() if key in header]
    looks += [tool for start, tool in BY_CATEGORY.items() if any(c.startswith(start) for c in categories)]
    looks += [tool for name, tool in BY_NAME.items() if name in names]
    guess = f"; it looks like a trace of {looks[0]}" if looks else ""
    return AccelError(
        f"open {path}",
        because=f"none of its {seen:,} events has a category that torch.profiler writes{guess}",
        do=DO,
    )
