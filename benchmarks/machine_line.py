"""The machine, versions and date that every benchmark's figures belong to, and how a result is written."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from accel.machine import read_machine

RESULTS = Path(__file__).parent / "results"
ON_GPU = RESULTS / "gpu"  # of machines with a GPU


def report(benchmark: str, figures: dict[str, float], *, is_full_run: bool, **details: Any) -> None:
    """Print the result as one line of JSON, and keep it in benchmarks/results when the run was a full one."""
    machine = read_machine(again=True)
    result = {
        "benchmark": benchmark,
        "figures": figures,
        "machine": machine.line,
        "threads": machine.torch_threads,
        "python": machine.python,
        "load_average": machine.load_average,
        "date": datetime.now(timezone.utc).date().isoformat(),
        **details,
    }
    if is_full_run:
        file = _file(benchmark)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")


def stored(benchmark: str) -> dict[str, Any]:
    """What the last full run on a machine of this kind, with a GPU or without, has written; empty where there was none."""
    file = _file(benchmark)
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _file(benchmark: str) -> Path:
    return (ON_GPU if read_machine().gpus else RESULTS) / f"{benchmark}.json"
