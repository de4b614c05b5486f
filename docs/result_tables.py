"""What the benchmarks measured, as Markdown: a section each, and the table of README."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
RESULTS = BENCHMARKS / "results"
ON_GPU = "gpu"  # its folder holds what was measured on machines with a GPU
MARKS = {"faster": "▲", "slower": "▼", "undecided": "?", "no difference": "="}
LOSS = {"same": "bit-equal", "follows": "follows", "drifts": "drifts"}
SHARES = (
    "accuracy",
    "detection",
    "efficiency",
    "rate",
    "said",
    "share",
)  # words of figures that are shares of 1

# What README shows of the results: a claim, the benchmark that measures it, and its figures.
CLAIMS = (
    ("The course's CNN with `steady_allocator+channels_last+autocast+fused_optimizer`, as the notebook runs", "catalogue",
     "{cnn28/steady_allocator+channels_last+autocast+fused_optimizer} times as fast"),
    ("The same CNN, half of its filters pruned; accuracy {pruning:accuracy_at_0}, then {pruning:accuracy_at_50}", "pruning",
     "{speedup_at_50} times as fast"),
    ("Profiled steps of the course's CNN (32 ms) against plain ones", "profile_options", "{ratio_no_option} of the time"),
    ("Simulated searches of `%accel tune` that end within 5 % of the best of all plans", "tuner",
     "{race_within_5pct_share} of {seeds}, with {measured_share} of the measurements of trying all"),
    ("Cells whose speed-up on the clock lies in the interval that `%accel tune` claimed", "clock",
     "{inside_notebook_share} of {cells} in the notebook, {inside_fresh_share} in fresh processes"),
    ("A cell compared with itself: false claims of a difference", "verdicts",
     "{quiet/false_verdict_rate} of {quiet/questions}; timed one after the other {quiet/sequential_false_verdict_rate}"),
    ("The same cell made 5 % slower: found", "verdicts", "{quiet/detection_5pct}"),
    ("Findings whose predicted interval holds the measured gain", "predictions", "{inside_share} of {cases} findings"),
    ("From `%%accel ddp` to the first step on two warm ranks", "launch",
     "{warm_s} s; torchrun {torchrun_s} s, `notebook_launcher` {notebook_launcher_s} s"),
    ("A trace of a million events as a report", "trace_reading",
     "{accel_cpu_s} s of CPU time; {times_faster_than_hta} times as fast as HTA"),
    ("Runs on ranks with random faults that named the right rank", "ddp_faults", "{right_rank} of {faults}"),
    ("Jobs of torchrun, mpirun and SLURM that lost a rank, a node or their time and went on", "job_faults",
     "{with_equal_losses} of {went_on} with the losses of a run without the fault; {left_processes} processes left"),
    ("Speed-up of two ranks on five test beds, predicted from one rank", "scaling",
     "off by {median_error_share}, at most {largest_error_share}"),
    ("Kernels that survived cells which crash, fork, exit or patch torch", "hostile", "{survived} of {kernels}"),
)  # fmt: skip


def benchmarks_page() -> str:
    """What each benchmark claims, and the figures that it measured last."""
    lines = [
        "# Benchmarks",
        "Each benchmark measures one claim, all sides in turns in one run. The figures belong to the machine and date below "
        "them; run the command to get yours. `--quick` takes less than a minute and writes nothing.",
        "Brackets hold an interval of 95 %, or the lowest and highest of all rounds where the text says so. `reference_…` are "
        "the course's own figures, from another machine and other data. ▲ faster, ▼ slower, = no difference, ? undecided; *as it "
        "runs* compares processes as the notebook is, *steady* has a steady allocator on both sides, which resolves smaller "
        "differences (bold: above or below 1).",
    ]
    for path in [*sorted(RESULTS.glob("*.json")), *sorted((RESULTS / ON_GPU).glob("*.json"))]:
        lines += _benchmark(path)
    return "\n\n".join(lines) + "\n"


def results_table() -> str:
    """What README shows between its two marks.

    >>> print(results_table())
    """
    measured = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    shown = {f"{name}:{key}": value for name, result in measured.items()
             for key, value in _with_intervals(result["figures"]).items()}  # fmt: skip
    rows = []
    for claim, name, figures in CLAIMS:
        own = {
            key.removeprefix(f"{name}:"): value for key, value in shown.items() if key.startswith(f"{name}:")
        }
        rows.append([_filled(claim, shown), _filled(figures, own), f"`{name}`"])
    return _table(["claim", "measured", "`python -m benchmarks.…`"], rows)


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(.+?)\}", lambda found: values[found.group(1)], text)


def _benchmark(path: Path) -> Iterator[str]:
    result = json.loads(path.read_text(encoding="utf-8"))
    docstring = (
        ast.get_docstring(ast.parse((BENCHMARKS / f"{path.stem}.py").read_text(encoding="utf-8"))) or ""
    )
    yield f"## {path.stem}" + (", on a GPU" if path.parent.name == ON_GPU else "")
    yield "\n\n".join(part for part in docstring.split("\n\n") if not part.startswith("    "))
    yield f"`python -m benchmarks.{path.stem}` · {result['machine']} · {result['date']}"
    yield from _tables(result)


def _tables(result: dict[str, Any]) -> Iterator[str]:
    """Figures named `column/row` or `column_at_row` as one table across, its rows where it has some, the rest as a list."""
    figures = _with_intervals(result["figures"])
    if "models" in result:
        yield _plans_by_model(result["models"])
        return
    for mark in ("/", "_at_"):
        across = {name: value for name, value in figures.items() if mark in name}
        figures = {name: value for name, value in figures.items() if name not in across}
        if across:
            yield _across(across, mark)
    if isinstance(result.get("rows"), list):
        yield _table(
            list(result["rows"][0]), [[_shown(value) for value in row.values()] for row in result["rows"]]
        )
    elif figures:
        yield _table(["figure", "value"], [[f"`{name}`", value] for name, value in figures.items()])


def _across(figures: dict[str, str], mark: str) -> str:
    columns = list(dict.fromkeys(name.split(mark, 1)[0] for name in figures))
    rows = list(dict.fromkeys(name.split(mark, 1)[1] for name in figures))
    return _table(
        ["", *columns],
        [[f"`{row}`", *(figures.get(column + mark + row, "–") for column in columns)] for row in rows],
    )


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *rows])


def _with_intervals(figures: dict[str, float]) -> dict[str, str]:
    """Each figure once, with its interval where its two ends are recorded too.

    >>> _with_intervals({"ratio": 1.2, "ratio_low": 1.1, "ratio_high": 1.3})
    {'ratio': '1.2 [1.1, 1.3]'}
    """
    shown = {}
    for name, value in figures.items():
        if not _is_an_end(name, figures):
            shown[name] = _figure(name, value) + _interval(name, figures)
    return shown


def _interval(name: str, figures: dict[str, float]) -> str:
    ends = [(figures.get(f"{name}{mark}low"), figures.get(f"{name}{mark}high")) for mark in "_/"]
    shown = (
        f" [{_figure(name, low)}, {_figure(name, high)}]" for low, high in ends if None not in (low, high)
    )
    return next(shown, "")


def _figure(name: str, value: float | None) -> str:
    is_share = value is not None and value <= 1 and any(word in re.split(r"[_./]", name) for word in SHARES)
    return f"{100 * value:.3g} %" if is_share else _shown(value)


def _is_an_end(name: str, figures: dict[str, float]) -> bool:
    return name.endswith(("_low", "_high", "/low", "/high")) and bool(
        _interval(name[: max(map(name.rfind, "_/"))], figures)
    )


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"`{value}`"


def _plans_by_model(models: dict[str, Any]) -> str:
    """Verdict and interval as the notebook runs, then under a steady allocator; bold where it is above or below 1."""
    plans = list(dict.fromkeys(plan for measured in models.values() for plan in measured["rows"]))
    titles = [title for model in models for title in (f"{model}, as it runs", "steady")]
    lines = []
    for plan in plans:
        rows = [measured["rows"].get(plan) for measured in models.values()]
        known = [row for row in rows if row]
        loss = " / ".join(dict.fromkeys(LOSS.get(row["quality"], "–") for row in known))
        lines.append([f"`{plan}`", known[0]["effect"], loss, *(cell for row in rows for cell in _cells(row))])
    return _table(["plan", "effect", "loss", *titles], lines)


def _cells(row: dict[str, Any] | None) -> tuple[str, str]:
    if row is None:
        return "–", "–"
    verdict = MARKS.get(row["verdict"], row["state"])
    as_notebook, steady = _ratio(row["as_notebook"]), _ratio(row["steady"])
    return (f"{verdict} {as_notebook}", steady) if row["as_notebook"] else ("–", f"{verdict} {steady}")


def _ratio(found: list[float] | None) -> str:
    if found is None:
        return "–"
    ratio, low, high = found
    text = f"{ratio:.2f} [{low:.2f}, {high:.2f}]"
    return f"**{text}**" if low > 1 or high < 1 else text
