"""What each part of a plan adds, alone and next to another part: a linear model of log speed-ups, with its uncertainty.

The logarithm of a plan's speed-up is the sum of what its parts add and of what each two of them add or take together. All
coefficients have normal priors, measurements have normal errors, so what is known is a normal distribution again, and plans
that were never measured have a mean and a spread too.

Source: Baptista & Poloczek, "Bayesian Optimization of Combinatorial Structures", ICML 2018 (second-order model).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

Choice = frozenset[str]
"""Parts that make a plan together; the empty one is the baseline."""
NOTHING: Choice = frozenset()

INTERACTION_SD = 0.06  # of log speed-ups: what two parts usually add to, or take from, each other
MISFIT_SD = 0.01  # what three parts do together, which the model has no term for


@dataclass(frozen=True)
class Prior:
    """What is expected of a part before it is measured: its log speed-up, and how far off that may be.

    >>> Prior()
    Prior(mean=0.0, sd=0.3)
    """

    mean: float = 0.0
    sd: float = 0.3


@dataclass(frozen=True)
class Measured:
    """One measurement of a plan: its log speed-up and the standard error of that."""

    choice: Choice
    gain: float
    error: float


class GainModel:
    """What is known of every plan that these parts can make, from what was measured of some.

    >>> model = GainModel({"a": Prior(), "b": Prior()}, [Measured(frozenset("a"), 0.5, 0.01)])
    >>> round(model.gain(frozenset("a")), 2), round(model.gain(frozenset("b")), 2)
    (0.5, 0.0)
    """

    def __init__(self, parts: Mapping[str, Prior], measured: Sequence[Measured]) -> None:
        self.parts = list(parts)
        self._place = {part: place for place, part in enumerate(self.parts)}
        self._pairs = {
            pair: len(parts) + place for place, pair in enumerate(combinations(range(len(parts)), 2))
        }
        means = np.array([prior.mean for prior in parts.values()] + [0.0] * len(self._pairs))
        spreads = np.array([prior.sd for prior in parts.values()] + [INTERACTION_SD] * len(self._pairs))
        self._mean, self._covariance = _posterior(
            means,
            np.diag(spreads**2),
            np.array([self._features(each.choice) for each in measured]).reshape(len(measured), len(means)),
            np.array([each.gain for each in measured]),
            np.array([each.error**2 + MISFIT_SD**2 for each in measured]),
        )

    def gain(self, choice: Choice) -> float:
        """The expected log speed-up of a plan."""
        return float(self._features(choice) @ self._mean)

    def spread(self, choice: Choice) -> float:
        """The standard deviation of that."""
        features = self._features(choice)
        return math.sqrt(features @ self._covariance @ features)

    def expected(self) -> Gains:
        """The model as it is expected to be."""
        return self._gains(self._mean)

    def drawn(self, count: int, random: np.random.Generator) -> list[Gains]:
        """So many of the models that the measurements leave possible, drawn by their probability."""
        drawn = random.multivariate_normal(self._mean, self._covariance, size=count, method="eigh")
        return [self._gains(weights) for weights in drawn]

    def _gains(self, weights: np.ndarray) -> Gains:
        count = len(self.parts)
        together = np.zeros((count, count))
        for (one, other), place in self._pairs.items():
            together[one, other] = together[other, one] = weights[place]
        return Gains(self.parts, weights[:count], together)

    def _features(self, choice: Collection[str]) -> np.ndarray:
        places = sorted(self._place[part] for part in choice)
        features = np.zeros(len(self.parts) + len(self._pairs))
        features[places] = 1.0
        features[[self._pairs[pair] for pair in combinations(places, 2)]] = 1.0
        return features


@dataclass(frozen=True)
class Gains:
    """Known coefficients: what each part adds `alone` (parts), and what each two add `together` (parts × parts)."""

    parts: list[str]
    alone: np.ndarray
    together: np.ndarray

    def of(self, choice: Choice) -> float:
        """The log speed-up of a plan."""
        chosen = np.array([part in choice for part in self.parts], dtype=float)
        return float(self.alone @ chosen + chosen @ self.together @ chosen / 2)

    def changes(self, choice: Choice) -> dict[str, float]:
        """What putting each part into the plan, or taking it out, would add."""
        chosen = np.array([part in choice for part in self.parts], dtype=float)
        signs = 1 - 2 * chosen
        return dict(zip(self.parts, (signs * (self.alone + self.together @ chosen)).tolist(), strict=True))


def _posterior(
    means: np.ndarray, covariance: np.ndarray, features: np.ndarray, gains: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of a normal linear model; solved over the measurements, of which there are fewer than coefficients.

    Source: Gelman et al., Bayesian Data Analysis, 14.8 (the same, in the other order of solving).
    """
    if not len(gains):
        return means, covariance
    shared = features @ covariance
    weights = np.linalg.solve(shared @ features.T + np.diag(variances), shared).T
    return means + weights @ (gains - features @ means), covariance - weights @ shared
