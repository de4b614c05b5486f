"""What was predicted and what was measured, on this machine, across notebooks: a small SQLite file of the user's own.

accel.history()                    the trials, newest first
accel.history(predictions=True)    what was predicted, beside what was measured

history_file.py      where it is, and how it is opened: damaged, locked, newer or unwritable files
record_store.py      RecordStore: dataclasses as rows; nothing it does can fail a profile or a trial
history_store.py     HistoryStore: the tables of predictions and trials
records.py           PredictionRecord and TrialRecord: what is kept; PastTrials: `%accel history`
past_predictions.py  PastPredictions: predicted beside measured, and how good predictions were

Nothing in it leaves the machine. ACCEL_HISTORY names another file, or "off".
"""

from __future__ import annotations

import sys

from accel.callable_package import CallablePackage
from accel.history.history_store import HistoryStore
from accel.history.past_predictions import PastPredictions
from accel.history.records import PastTrials, PredictionRecord, TrialRecord

sys.modules[__name__].__class__ = CallablePackage

__all__ = ["HistoryStore", "PastPredictions", "PastTrials", "PredictionRecord", "TrialRecord"]
