"""Checks of exercises: each looks at the student's work, never at its wording, and says what it saw.

A check is a function (*work, **needs) → Seen: the work is what the notebook passes to `lab.check(name, …)`, `needs` are the
keywords of the exercise in its chapter's file. seen.py has what they share.
"""

from __future__ import annotations

from accel.labs.exercises.table import CHECKS as CHECKS
from accel.labs.exercises.table import check_named as check_named
