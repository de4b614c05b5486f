"""A loader starts its worker processes anew for every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

# Training itself is slower while workers start next to it: 1.05 to 1.1 times, in cells of 5 and 8 epochs on two CPUs.
ALONE = (1.0, 1.05, 1.15)


def loader_restarts(evidence: Evidence) -> Finding | None:
    """Workers that were started twice and more in this cell, by a loader without `persistent_workers=True`."""
    loaders = evidence.objects.loaders
    again = [
        start
        for start in evidence.profile.whole_run.loader_starts
        if start.starts > 1
        and not getattr(loaders.get(start.loader), "persistent_workers", False)
        and "loader_workers" not in evidence.live
    ]
    if not again:
        return None
    worst = max(again, key=lambda start: start.ms)
    share = evidence.of_cell(worst.ms * (worst.starts - 1) / worst.starts)
    return Finding(
        kind="loader_restarts",
        title=f"Worker processes are started {worst.starts} times: {percent(share)} of the cell",
        what=f"Each epoch {worst.loader} starts its {worst.workers} worker processes again. Training waits for the first "
        "batch of the new workers, and for the workers to exit.",
        share=share,
        evidence=(f"starting and ending workers {worst.starts} times added {worst.ms:.3g} ms to the time of ordinary fetches",
                  f"{worst.loader}: num_workers={worst.workers}, persistent_workers=False"),
        prediction=amdahl(
            f"starting the workers only once saves up to {percent(share)} of the whole cell, and at least half of that: running "
            "workers need time for the first batch of an epoch too; the rest, next to which nothing starts, becomes up to "
            f"{ALONE[-1]:g} times as fast",
            Part(share, 2.0, GONE, GONE), Part(1.0 - share, *ALONE),
            of="cell",
        ),
        suggests=(),
        remedy=f"Build {worst.loader} with persistent_workers=True; where epochs stay that short, num_workers=0 may be faster "
        "still.",
        wrong_when="the data set changes between epochs (workers keep the copy they began with), or memory is short: idle "
        "workers keep theirs. From the second epoch on a shuffle draws another order.",
        line=evidence.line_where(lambda node: getattr(getattr(node, "func", None), "id", "") == "DataLoader"),
        details={"starts": float(worst.starts), "start_ms": worst.ms / worst.starts},
    )  # fmt: skip
