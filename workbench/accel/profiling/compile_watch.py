"""Listen to dynamo while a cell runs. It is never imported here: a cell that compiles nothing pays nothing."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from accel.profiling.compilation import (
    Compilation,
    GraphBreak,
    Recompilation,
    function_name,
    kind_of_guard,
    read_graph_break,
    read_guard,
)
from accel.workload.user_code import CodeLine

DYNAMO = "torch._dynamo"
GRAPH_BREAK_LOGS = (f"{DYNAMO}.symbolic_convert.__graph_breaks", f"{DYNAMO}.convert_frame.__graph_breaks")
WARNINGS = f"{DYNAMO}.convert_frame"  # tells when the limit of recompilations is reached
LIMIT_SAID = ("hit config.recompile_limit", "hit config.cache_size_limit", "hit config.accumulated_")
NO_METRICS = (
    "this torch tells nothing of recompilations (torch._dynamo.utils.get_compilation_metrics is missing)"
)


class CompileWatch:
    """Collects graphs, recompilations and graph breaks of whatever is compiled inside the `with`.

    >>> with CompileWatch() as watch:
    ...     exec(cell)
    >>> print(watch.found())
    torch.compile: 1 graph, 1.9 s compiling, 0 recompilations, 0 graph breaks

    What the user set for dynamo's logs stays, and nothing is printed that was not before. `found()` may also be asked
    while the `with` is open: what was compiled until then.
    """

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._warnings: list[str] = []
        self._began_us = self._graphs_before = self._graphs = self._hits_before = self._hits = 0
        self._metrics: list[Any] = []
        self._notes: tuple[str, ...] = ()
        self._is_open = False
        self._exit = ExitStack()

    def __enter__(self) -> CompileWatch:
        self._began_us, self._graphs_before = time.time_ns() // 1000, _graphs()
        self._hits_before, self._is_open = _cache_hits(), True
        for name in GRAPH_BREAK_LOGS:
            self._exit.enter_context(_Listener(name, self._messages, at_debug=True))
        self._exit.enter_context(_Listener(WARNINGS, self._warnings, at_debug=False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._exit.close()
        self._read()
        self._is_open = False

    def _read(self) -> None:
        graphs, hits = _graphs(), _cache_hits()
        self._graphs = graphs - self._graphs_before if graphs >= self._graphs_before else graphs
        self._hits = hits - self._hits_before if hits >= self._hits_before else hits
        self._metrics, self._notes = _metrics_since(self._began_us)

    def found(self) -> Compilation | None:
        """What was compiled; None when dynamo did nothing."""
        if self._is_open:
            self._read()
        breaks = _graph_breaks(self._messages)
        if not (self._graphs or breaks or self._metrics):
            return None
        fail_reasons = [getattr(one, "fail_reason", None) or "" for one in self._metrics]
        return Compilation(
            graphs=self._graphs,
            compile_s=sum(map(_seconds, self._metrics)),
            recompilations=_recompilations(self._metrics),
            graph_breaks=breaks,
            reached_limit=any(said in line for line in self._warnings for said in LIMIT_SAID)
            or any("limit exceeded" in reason for reason in fail_reasons),
            notes=self._notes,
            from_cache=self._hits,
        )


class _Listener(logging.Handler):
    """Takes a logger's messages; one that was silent stays so for everybody else."""

    def __init__(self, name: str, messages: list[str], *, at_debug: bool) -> None:
        super().__init__()
        self._logger, self._messages, self._at_debug = logging.getLogger(name), messages, at_debug

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())

    def __enter__(self) -> None:
        logger = self._logger
        self._before, self._was_there = (logger.level, logger.propagate), DYNAMO in sys.modules
        self._opens = self._at_debug and not logger.isEnabledFor(logging.DEBUG)
        if self._opens:
            logger.propagate = False
            logger.setLevel(logging.DEBUG)
        logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        logger = self._logger
        logger.removeHandler(self)
        if self._opens and logger.level == logging.DEBUG:  # else the cell has set up dynamo's logs itself
            logger.setLevel(self._before[0])
            # Dynamo, if imported during the run, sets False for logs that are off unless asked for.
            logger.propagate = self._before[1] and (self._was_there or DYNAMO not in sys.modules)


def _graphs() -> int:
    """Graphs that dynamo compiled so far in this process."""
    utils = sys.modules.get(f"{DYNAMO}.utils")
    return 0 if utils is None else int(utils.counters["stats"]["unique_graphs"])


def _cache_hits() -> int:
    """Graphs whose code came from TorchInductor's cache on disk, or AOTAutograd's above it, so far in this process."""
    utils = sys.modules.get(f"{DYNAMO}.utils")
    if utils is None:
        return 0
    read = utils.counters
    return int(read["inductor"]["fxgraph_cache_hit"] + read["aot_autograd"]["autograd_cache_hit"])


def _metrics_since(began_us: int) -> tuple[list[Any], tuple[str, ...]]:
    """Dynamo's record of each compilation that began since then, and what is missing of them."""
    utils = sys.modules.get(f"{DYNAMO}.utils")
    if utils is None:
        return [], ()
    read = getattr(utils, "get_compilation_metrics", None)
    if read is None:
        return [], (NO_METRICS,)
    kept = read()
    ours = [one for one in kept if (getattr(one, "start_time_us", None) or 0) >= began_us]
    limit = getattr(utils, "DEFAULT_COMPILATION_METRICS_LIMIT", 64)
    is_cut = len(ours) == len(kept) >= limit
    return ours, (
        f"dynamo keeps records of the last {limit} compilations only; there may have been more",
    ) * is_cut


def _seconds(metrics: Any) -> float:
    """Wall time of one compilation."""
    duration_us = getattr(metrics, "duration_us", None)
    if duration_us is not None:
        return float(duration_us) / 1e6
    return float(getattr(metrics, "entire_frame_compile_time_s", None) or 0.0)


def _recompilations(metrics: Iterable[Any]) -> tuple[Recompilation, ...]:
    """Those with a reason, by function and kind of guard; the reason shown is the first."""
    found: dict[tuple[str, str, int, str], Recompilation] = {}
    for one in metrics:
        recorded = getattr(one, "recompile_reason", None)
        if not recorded or not one.co_name:  # without a name: the limit was reached, and nothing was compiled
            continue
        guard, place = read_guard(recorded)
        own = CodeLine(one.co_filename or "", one.co_firstlineno or 0)
        filename, line = place or own
        key = (one.co_name, filename, line, kind_of_guard(guard))
        count = found[key].count + 1 if key in found else 1
        reason = found[key].reason if key in found else guard
        found[key] = Recompilation(function_name(one.co_name), reason, filename, line, count)
    return tuple(sorted(found.values(), key=lambda one: -one.count))


def _graph_breaks(messages: Iterable[str]) -> tuple[GraphBreak, ...]:
    found: dict[tuple[str, CodeLine], int] = {}
    for message in messages:
        graph_break = read_graph_break(message)
        if graph_break is not None:
            found[graph_break] = found.get(graph_break, 0) + 1
    breaks = (
        GraphBreak(reason, place.filename, place.line, count) for (reason, place), count in found.items()
    )
    return tuple(sorted(breaks, key=lambda one: -one.count))
