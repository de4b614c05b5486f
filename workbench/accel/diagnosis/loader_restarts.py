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
        evidence=(f"starting and ending workers {worst.starts} times took {worst.ms:.3g} ms more than other fetches",
                  f"{worst.loader}: num_workers={worst.workers}, persistent_workers=False"),
        prediction=amdahl(
            f"starting the workers again takes {percent(share)} of the whole cell; starting them only once saves at least half "
            "of that time (persistent workers, too, need time for an epoch's first batch); the rest of the cell becomes up to "
            f"{ALONE[-1]:g} times as fast, because no workers start while it runs",
            Part(share, 2.0, GONE, GONE), Part(1.0 - share, *ALONE),
            of="cell",
        ),
        suggests=(),
        remedy=f"Build {worst.loader} with persistent_workers=True; where epochs stay that short, num_workers=0 may be faster "
        "still.",
        wrong_when="the data set changes between epochs (persistent workers keep their first copy), or memory is short: idle "
        "workers keep their memory. From the second epoch on, the shuffled order differs from that of restarted workers.",
        line=evidence.line_where(lambda node: getattr(getattr(node, "func", None), "id", "") == "DataLoader"),
        details={"starts": float(worst.starts), "start_ms": worst.ms / worst.starts},
    )  # fmt: skip
