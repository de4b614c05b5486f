"""Which tool a file is from that torch.profiler did not write: a reader then knows what they have opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from accel.errors import AccelError

# What the head of the file, the categories of its events, or their names give away.
BY_KEY = {
    "viztracer_metadata": "VizTracer", "$schema": "speedscope", "profiles": "speedscope", "memray": "memray",
    "nodes": "a CPU profile of V8", "resourceSpans": "OpenTelemetry", "lintime": "memray",
}  # fmt: skip
BY_CATEGORY = {
    "FEE": "VizTracer", "disabled-by-default": "Chrome or Chromium", "devtools.timeline": "Chrome or Chromium", "v8": "V8",
    "blink": "Chrome or Chromium", "toplevel": "Chrome or Chromium", "__metadata": "Chrome or Chromium",
    "Node": "ONNX Runtime", "Session": "ONNX Runtime", "Op": "TensorFlow", "XLA": "XLA (JAX or TensorFlow)",
    "GROUP_API": "NCCL's own profiler", "dask": "Dask", "Source": "Clang (-ftime-trace)",
}  # fmt: skip
BY_NAME = {"Total ExecuteCompiler": "Clang (-ftime-trace)", "TracingStartedInBrowser": "Chrome or Chromium"}
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
    told = f"; it looks like a trace of {looks[0]}" if looks else ""
    return AccelError(
        f"open {path}",
        because=f"none of its {seen:,} events is an operation or a kernel of torch{told}",
        do=DO,
    )
