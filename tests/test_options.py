"""`accel.options`: what is set holds, and what makes no sense is refused with the right word."""

from __future__ import annotations

import math

import pytest

import accel
from accel.errors import AccelError
from accel.options import MEANINGS


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("progres", False, "Did you mean 'progress'"),
        ("progress", 1, "Set it to True or to False"),
        ("toast_after_s", -1, "0 or above"),
        ("toast_after_s", math.nan, "0 or above"),
        ("toast_after_s", True, "0 or above"),
        ("toast_after_s", "20", "Set it for example to 20"),
    ],
)
def test_a_wrong_option_or_value_is_refused_and_changes_nothing(name, value, says):
    before = str(accel.options)
    with pytest.raises(AccelError, match=says):
        setattr(accel.options, name, value)
    assert str(accel.options) == before


def test_an_option_holds_and_each_is_printed(monkeypatch):
    monkeypatch.setattr(accel.options, "toast_after_s", math.inf)
    assert "toast_after_s = inf" in str(accel.options)
    assert [name for name in MEANINGS if name not in str(accel.options)] == []
