"""The machine, versions and date that every benchmark's figures belong to, and how a result is written."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from accel.machine import read_machine

RESULTS = Path(__file__).parent / "results"


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
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{benchmark}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
