"""Does the search of `%accel tune` find the best plan, and with how few measurements? On simulated costs, where that is known.

    python -m benchmarks.tuner [--quick]

Twelve entries make 4,096 plans, of which some exclude each other. Costs are of two kinds, half of the seeds each:
*pairs*: each entry adds a gain, and some pairs of them more or less than both (as bf16 and a memory layout do); *phases*: a
step is the longer of waiting for data and computing, and each entry speeds up some phases, so that what an entry adds hangs
on which phase is the bottleneck, which the search's own model has no term for. A measurement has the noise of real
processes: 1.1 % from process to process, the baseline's shared by all plans of a round.

The other searches get as many measurements (one plan in one round) as the race took, or fewer where they end before: *random
plans*, *one after the other* (each entry alone, then added in the order of gains, as long as that helps), *all that help alone*,
*successive halving*.

Figures: `…_within_5pct_share`, the share of seeds in which the plan found is at most 5 % slower than the best of all plans;
`…_regret_90pct`, how much slower it is in the worst tenth; `measured_share`, measurements over plans; the same for the others.
The table has the share where a search is stopped after so many measurements: two minutes are enough for 8 to 20. *race* then
measures its likeliest plan and the best so far anew, six measurements in all, which the others get too; *race_leader* has the
best so far.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from accel.measuring.interval import STEADY_NOISE
from accel.tuning.gain_model import Choice, Measured, Prior
from accel.tuning.race import NOTHING, Race
from benchmarks.machine_line import report

ENTRIES = tuple("abcdefghijkl")
SEEDS, QUICK_SEEDS = 200, 24
GOOD = 0.05
STOPPED_AFTER = (8, 12, 20, 40)  # measurements
ANSWERED = 3  # more of each of two plans, for the answer


@dataclass(frozen=True)
class Costs:
    """A simulated training: the true log speed-up of each plan, and which plans can be."""

    gains: dict[Choice, float]

    @property
    def best(self) -> float:
        return max(self.gains.values())


class Bench:
    """Measures plans of simulated costs, a round at a time, and counts."""

    def __init__(self, costs: Costs, seed: int) -> None:
        self.costs, self.count = costs, 0
        self._random = np.random.default_rng([seed, 1])

    def round(self, plans: Sequence[Choice]) -> list[Measured]:
        """All against one baseline, whose own luck is in each of them."""
        self.count += len(plans)
        sd = STEADY_NOISE.sd / math.sqrt(2)
        base = self._random.normal(0, sd)
        return [
            Measured(plan, self.costs.gains[plan] + base + self._random.normal(0, sd), STEADY_NOISE.sd)
            for plan in plans
        ]

    def means(self, plans: Sequence[Choice], times: int) -> dict[Choice, float]:
        """Each of these in so many rounds."""
        rounds = [self.round(plans) for _ in range(times)]
        return {
            plan: float(np.mean([each[place].gain for each in rounds])) for place, plan in enumerate(plans)
        }


def plans_without(excluded: Sequence[Choice]) -> list[Choice]:
    """All that can be made of the entries."""
    every = [frozenset(parts) for size in range(len(ENTRIES) + 1) for parts in combinations(ENTRIES, size)]
    return [plan for plan in every if not any(pair <= plan for pair in excluded)]


def by_pairs(random: np.random.Generator) -> Costs:
    """A third of the entries do nothing, the others help or hurt; one pair in five is more or less than its two."""
    alone = {
        entry: random.choice([0.0, random.normal(0.12, 0.12), random.normal(-0.1, 0.2)], p=[0.35, 0.45, 0.2])
        for entry in ENTRIES
    }
    pairs = {
        frozenset(pair): random.normal(0, 0.12) for pair in combinations(ENTRIES, 2) if random.random() < 0.2
    }
    return Costs(
        {
            plan: sum(alone[part] for part in plan)
            + sum(more for pair, more in pairs.items() if pair <= plan)
            for plan in plans_without(_excluded(random))
        }
    )


def by_phases(random: np.random.Generator) -> Costs:
    """A step: data, beside it forward, backward and optimizer, and an overhead; each entry changes one to three of the five."""
    phases = random.dirichlet(np.ones(5) * 1.5) * 5
    factors = np.ones((len(ENTRIES), 5))
    for row in factors:
        touched = random.choice(5, size=random.integers(1, 4), replace=False)
        row[touched] = np.exp(random.normal(-0.15, 0.3, size=len(touched)))

    def step(plan: Choice) -> float:
        scaled = phases * np.prod([factors[ENTRIES.index(part)] for part in plan] or [np.ones(5)], axis=0)
        return float(max(scaled[0], scaled[1:4].sum()) + scaled[4])

    whole = step(NOTHING)
    return Costs({plan: math.log(whole / step(plan)) for plan in plans_without(_excluded(random))})


def _excluded(random: np.random.Generator) -> list[Choice]:
    return [frozenset(random.choice(ENTRIES, size=2, replace=False).tolist()) for _ in range(2)]


def race(bench: Bench, seed: int) -> Choice:
    """As `%accel tune` searches."""
    return _raced(bench, seed, None).leader


def _raced(bench: Bench, seed: int, budget: int | None) -> Race:
    """To its end, or until so many measurements are over."""
    running = Race(
        dict.fromkeys(ENTRIES, Prior()), lambda choice: choice in bench.costs.gains, width=4, seed=seed
    )
    while (plans := running.next_round()) and bench.count != budget:
        running.take(bench.round(plans if budget is None else plans[: budget - bench.count]))
    return running


def race_cut_short(bench: Bench, seed: int, budget: int) -> Choice:
    """The answer of a search whose time is up: the likeliest plan and the best that was measured, both anew."""
    running = _raced(bench, seed, budget)
    either = [plan for plan in (running.likely_of(ENTRIES), running.leader) if plan]
    means = bench.means(list(dict.fromkeys(either)), ANSWERED) if either else {}
    return max([NOTHING, *either], key=lambda plan: means.get(plan, 0.0))


def race_leader(bench: Bench, seed: int, budget: int) -> Choice:
    """The best that was measured then."""
    return _raced(bench, seed, budget).leader


def random_plans(bench: Bench, seed: int, budget: int) -> Choice:
    """So many plans, each once; the best."""
    random = np.random.default_rng([seed, 2])
    plans = list(bench.costs.gains)
    picked = [plans[each] for each in random.choice(len(plans), size=budget, replace=False)]
    return max(bench.round(picked), key=lambda each: each.gain).choice


def one_after_the_other(bench: Bench, seed: int, budget: int) -> Choice:
    """Every entry alone; then, the best first, each is added if the plan is faster with it; again while there is budget."""
    alone = bench.means([frozenset({entry}) for entry in ENTRIES], 1)
    order = sorted(alone, key=lambda choice: -alone[choice])
    plan = order[0]
    while bench.count + 2 <= budget:
        before = plan
        for choice in order:
            together = plan | choice
            if bench.count + 2 <= budget and together != plan and together in bench.costs.gains:
                gains = bench.means([plan, together] if plan else [together], 1)
                plan = together if gains[together] > gains.get(plan, 0.0) else plan
        if plan == before:
            break
    return plan


def all_that_help(bench: Bench, seed: int, budget: int) -> Choice:
    """Every entry alone, as often as the budget allows; those that gain more than the noise, together."""
    times = max(budget // len(ENTRIES), 1)
    alone = bench.means([frozenset({entry}) for entry in ENTRIES], times)
    plan = NOTHING
    for choice in sorted(alone, key=lambda choice: -alone[choice]):
        if alone[choice] > 2 * STEADY_NOISE.sd / math.sqrt(times) and plan | choice in bench.costs.gains:
            plan |= choice
    return plan


def successive_halving(bench: Bench, seed: int, budget: int) -> Choice:
    """Plans at random, all once; the better half twice as often, until one is left."""
    random = np.random.default_rng([seed, 3])
    plans = list(bench.costs.gains)
    rounds = max(1, int(math.log2(max(budget / 4, 2))))
    size = max(2, 2 ** int(math.log2(budget / rounds)))
    left = [plans[each] for each in random.choice(len(plans), size=size, replace=False)]
    while len(left) > 1:
        means = bench.means(left, max(1, budget // rounds // len(left)))
        left = sorted(left, key=lambda plan: -means[plan])[: len(left) // 2]
    return left[0]


RIVALS: dict[str, Callable[[Bench, int, int], Choice]] = {
    "random": random_plans,
    "one_after_the_other": one_after_the_other,
    "all_that_help": all_that_help,
    "halving": successive_halving,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds, some seconds")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    arguments = parser.parse_args()
    seeds = QUICK_SEEDS if arguments.quick else arguments.seeds
    regrets: dict[str, list[float]] = {"race": [], **{name: [] for name in RIVALS}}
    shares, counts = [], []
    stopped: dict[str, list[bool]] = {}
    for seed in range(seeds):
        costs = (by_pairs, by_phases)[seed % 2](np.random.default_rng([seed, 0]))
        bench = Bench(costs, seed)
        found = race(bench, seed)
        regrets["race"].append(costs.best - costs.gains[found])
        budget = bench.count
        shares.append(budget / len(costs.gains))
        counts.append(budget)
        for name, rival in RIVALS.items():
            found = rival(Bench(costs, seed), seed, budget)
            regrets[name].append(costs.best - costs.gains[found])
        for budget in STOPPED_AFTER:
            for name, search in {"race": race_cut_short, "race_leader": race_leader, **RIVALS}.items():
                more = 0 if name.startswith("race") else 2 * ANSWERED
                regret = 1 - math.exp(
                    costs.gains[search(Bench(costs, seed), seed, budget + more)] - costs.best
                )
                stopped.setdefault(f"{name}_within_5pct_share_at_{budget}", []).append(regret <= GOOD)
    figures: dict[str, float] = {
        "seeds": seeds,
        "measurements_median": float(np.median(counts)),
        "measured_share": float(np.mean(shares)),
        "measured_share_most": max(shares),
    }
    for name, each in regrets.items():
        slower = 1 - np.exp(-np.array(each))
        figures[f"{name}_within_5pct_share"] = float(np.mean(slower <= GOOD))
        figures[f"{name}_regret_mean"] = float(np.mean(slower))
        figures[f"{name}_regret_90pct"] = float(np.quantile(slower, 0.9))
    figures |= {name: sum(good) / len(good) for name, good in stopped.items()}
    report("tuner", figures, is_full_run=not arguments.quick)


if __name__ == "__main__":
    main()
