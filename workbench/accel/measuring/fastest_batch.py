"""Which batch trains the most samples a second: measured sizes, and the smallest that nothing is told faster than."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel import html_parts as html
from accel.measuring.comparison import Comparison, Interval
from accel.measuring.ladder import explanations
from accel.measuring.took import Took

if TYPE_CHECKING:
    import plotly.graph_objects

AS_IT_IS = Interval(1.0, 1.0, 1.0, 0, 0)  # the present batch, against itself


@dataclass(frozen=True)
class BatchRung:
    """One size of batch: the plan that gives it and what was measured; no row for the batch that the cell has."""

    batch: int
    plan: str
    row: Comparison | None = None

    @property
    def speed(self) -> Interval | None:
        """Samples a second against the present batch, as its row shows them; None if it was not measured."""
        if self.row is None:
            return AS_IT_IS
        return self.row.shown if self.row.state in ("done", "stopped") else None

    @property
    def sentence(self) -> str:
        """What is known of it, in words."""
        return "as it is" if self.row is None else self.row.sentence


@dataclass(frozen=True)
class FastestBatch:
    """Sizes of batch, smallest first, each compared per sample with the present one.

    >>> print(accel.fastest_batch())
    """

    rungs: tuple[BatchRung, ...]
    present: int
    machine_line: str
    took: Took | None = None

    @property
    def fastest(self) -> BatchRung:
        """The smallest batch that no other is told faster than: where intervals overlap, nothing speaks for the larger."""
        best = self._best
        return next(rung for rung in self.rungs if rung.speed and _is_as_fast(rung.speed, best))

    @property
    def alike(self) -> tuple[BatchRung, ...]:
        """The other batches that could not be told apart from the fastest."""
        best, fastest = self._best, self.fastest
        return tuple(r for r in self.rungs if r is not fastest and r.speed and _is_as_fast(r.speed, best))

    @property
    def _best(self) -> Interval:
        return max((rung.speed for rung in self.rungs if rung.speed), key=lambda speed: speed.ratio)

    @property
    def answer(self) -> str:
        """The answer in a sentence or two."""
        fastest, larger = self.fastest, [str(rung.batch) for rung in self.alike]
        if fastest.row is None:
            first = f"Fastest: {self.present:,} samples, the batch that you have."
        else:
            shown = fastest.row.shown or fastest.speed
            first = f"Fastest: {fastest.batch:,} samples ({shown} per sample, against {self.present:,})."
        if larger:
            verb = "is" if len(larger) == 1 else "are"
            first += f" {' and '.join(larger)} {verb} not distinguishable from it: the smallest is taken."
        return first

    @property
    def advice(self) -> str:
        """What to do with the answer, and what it does not say."""
        plan = self.fastest.plan
        if not plan:
            return ""
        return (
            f"%accel keep {plan} makes it live. It changes training: with larger batches an epoch has fewer updates, with "
            f'smaller ones more. Compare the time to the same quality first: %accel try {plan} --until "accuracy>=0.95"'
        )

    @property
    def _took_line(self) -> str:
        return str(self.took) if self.took is not None else ""

    def __str__(self) -> str:
        lines = [self.answer]
        for rung in self.rungs:
            lines.append(f"{'▲' if rung is self.fastest else ' '} {rung.batch:>7,}  {rung.sentence}")
            lines += [f"{'':11}{text}" for text in _small_print(rung)]
        return "\n".join(line for line in [*lines, self._took_line, self.advice, self.machine_line] if line)

    def to_dict(self) -> dict[str, Any]:
        """Sizes with what was measured of each, and the answer."""
        return {**asdict(self), "fastest": self.fastest.batch, "answer": self.answer}

    def to_dataframe(self) -> Any:
        """One row a size: batch, plan, ratio, low, high, step_ms, what is known (pandas)."""
        import pandas

        return pandas.DataFrame([_flat(rung, is_fastest=rung is self.fastest) for rung in self.rungs])

    def figure(self) -> plotly.graph_objects.Figure:
        """Samples a second against the present batch, with intervals, over the size of the batch."""
        import plotly.graph_objects as go

        measured = [(rung.batch, rung.speed) for rung in self.rungs if rung.speed]
        ratios = [speed.ratio for _, speed in measured]
        trace = go.Scatter(
            x=[batch for batch, _ in measured], y=ratios, mode="lines+markers",
            error_y={"type": "data", "array": [s.high - s.ratio for _, s in measured],
                     "arrayminus": [s.ratio - s.low for _, s in measured]},
            hovertemplate="%{x} samples: %{y:.2f}×<extra></extra>",
        )  # fmt: skip
        top = min(
            max(s.high for _, s in measured), 1.5 * max(ratios)
        )  # one wide interval leaves room for the others
        grid = {"gridcolor": "rgba(127,127,127,0.25)"}
        return go.Figure(trace, layout={
            "title": {"text": "Samples a second, against the present batch"}, "height": 380, "font": {"color": "#7d8590"},
            "xaxis": {"title": "samples a batch", "type": "log", "tickvals": [batch for batch, _ in measured], **grid},
            "yaxis": {"title": "speed-up per sample", "range": [0, 1.06 * top], **grid},
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        })  # fmt: skip

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._html()}

    def _bar(self, rung: BatchRung) -> str:
        colour = "#16a34a" if rung is self.fastest else "#6b7280"
        return "" if rung.speed is None else html.bar(rung.speed.ratio / self._best.ratio, colour=colour)

    def _html(self) -> str:
        rows = [
            (
                f"{'▲ ' if rung is self.fastest else ''}{rung.batch:,}",
                self._bar(rung),
                rung.sentence,
                html.Markup("<br>".join(html.text(text) for text in _small_print(rung))),
            )
            for rung in self.rungs
        ]  # fmt: skip
        notes = [html.note(line) for line in (self._took_line, self.advice, self.machine_line) if line]
        headings = ["samples a batch", "per sample", "verdict", "how it was found"]
        return html.block(html.heading(self.answer), html.table(headings, rows), *notes)


def is_faster(one: Interval | None, other: Interval | None) -> bool:
    """Whether the first is told faster: its whole interval lies above the other's."""
    return one is not None and other is not None and one.low > other.high


def _is_as_fast(one: Interval, best: Interval) -> bool:
    return not is_faster(best, one)


def _small_print(rung: BatchRung) -> list[str]:
    return [] if rung.row is None or rung.speed is None else explanations(rung.row)[:3]


def _flat(rung: BatchRung, *, is_fastest: bool) -> dict[str, Any]:
    speed, row = rung.speed, rung.row
    return {
        "batch": rung.batch,
        "plan": rung.plan,
        "ratio": speed.ratio if speed else float("nan"),
        "low": speed.low if speed else float("nan"),
        "high": speed.high if speed else float("nan"),
        "step_ms": row.candidate_ms if row else float("nan"),
        "is_fastest": is_fastest,
        "known": rung.sentence,
    }
