"""A trial of any kind: by speed, by quality, or a search."""

from __future__ import annotations

from typing import TypeAlias

from accel.workers.quality_trial import QualityTrial
from accel.workers.trial import Trial
from accel.workers.tune_trial import TuneTrial

AnyTrial: TypeAlias = Trial | QualityTrial | TuneTrial
