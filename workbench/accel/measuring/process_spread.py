"""How far the processes of a trial lie apart, learnt from all of its plans at once, the baseline too.

Each relaunch runs the baseline and every plan that is open: relaunches are the blocks of a randomised block design. The
logarithm of a process's step time is made of its plan, its relaunch (the machine then) and its own luck. What the first two
leave is luck, with P · (R - 1) degrees of freedom for P plans and R relaunches, where one plan alone has R - 1. Plans that were
decided earlier have gaps, for which least squares makes up. The fit is independent of a plan's difference from the baseline, so
Student's t is exact where all processes vary alike; where they do not, the spread is that of a usual one.

Source: Montgomery, Design and Analysis of Experiments, ch. 4 (randomised complete block design, missing values).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from accel.measuring.interval import ProcessNoise, Spread, expected_variance


def spread_of(relaunches: Sequence[Mapping[str, Sequence[float]]], noise: ProcessNoise) -> Spread:
    """What the log-ratios of all plans (relaunch by relaunch, by label) tell of the processes' spread.

    >>> spread_of([{"a": [0.1] * 9, "b": [0.3] * 9}, {"a": [0.1] * 9, "b": [0.3] * 9}], STEADY_NOISE)
    Spread(squares=0.0..., freedom=2)
    """
    plans = sorted({label for relaunch in relaunches for label in relaunch})
    rows, values = [], []
    for number, relaunch in enumerate(relaunches):
        weight = np.mean([expected_variance(ratios, noise) for ratios in relaunch.values()]) ** -0.5
        medians = {label: float(np.median(ratios)) for label, ratios in relaunch.items()}
        for label, median in {"": 0.0, **medians}.items():  # "": the baseline, to which all are relative
            rows.append(
                [each == number for each in range(len(relaunches))] + [each == label for each in plans]
            )
            rows[-1] = [weight * each for each in rows[-1]]
            values.append(weight * median)
    design, told = np.array(rows), np.array(values)
    fitted, _, rank, _ = np.linalg.lstsq(design, told, rcond=None)
    residuals = told - design @ fitted
    return Spread(2 * float(residuals @ residuals), len(told) - int(rank))  # 2: a ratio is of two processes
