"""Environments with a torch of their own: `make environments` makes them, and they outlive a run of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accel.environments.environment import Environment
from accel.environments.wanted import find
from accel.errors import UnknownName

PLACE = Path(__file__).resolve().parents[2] / "build" / "environments"


def real_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """This one, where all of them lie; a skip, unless it is asked for."""
    if os.environ.get("ACCEL_REQUIRE_ENVIRONMENTS") != "1":
        pytest.skip(f"needs the environment {name}: `make environments` makes it, and runs this")
    monkeypatch.setenv("ACCEL_ENVIRONMENTS", str(PLACE))
    try:
        return find(name)
    except UnknownName:
        pytest.fail(f"no environment {name} in build/environments")
