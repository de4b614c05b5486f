"""How good is good enough, as a user writes it."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.errors import AccelError
from accel.measuring.quality_target import QualityTarget


@pytest.mark.parametrize("text", ["accuracy>=0.95", " accuracy >= 0.95 ", "accuracy>= 95e-2"])
def test_spaces_and_forms_of_the_number_do_not_matter(text):
    assert QualityTarget.parse(text) == QualityTarget("accuracy", True, 0.95)


def test_a_target_is_met_at_its_very_value_and_beyond():
    at_least, at_most = QualityTarget.parse("accuracy>=0.95"), QualityTarget.parse("loss<=0.1")
    assert (at_least.is_met(0.95), at_least.is_met(0.949), at_least.is_met(None)) == (True, False, False)
    assert (at_most.is_met(0.1), at_most.is_met(0.11), at_most.is_met(math.nan)) == (True, False, False)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("accuracy", "a metric, >= or <=, and a number"),
        ("accuracy>0.9", "a metric, >= or <=, and a number"),
        ("accuracy==0.9", "a metric, >= or <=, and a number"),
        (">=0.9", "a metric, >= or <=, and a number"),
        ("0.9<=accuracy", "a metric, >= or <=, and a number"),
        ("my metric>=1", "a metric, >= or <=, and a number"),
        ("accuracy>=high", "'high' is not a number"),
        ("accuracy>=95%", "'95%' is not a number"),
        ("accuracy>=nan", "not finite"),
        ("loss<=inf", "not finite"),
        (0.95, "a metric, >= or <=, and a number"),
        ("", "a metric, >= or <=, and a number"),
    ],
)
def test_what_is_no_target_says_how_one_is_written(text, because):
    with pytest.raises(AccelError, match=because) as raised:
        QualityTarget.parse(text)
    assert "accuracy>=0.95" in raised.value.do


@given(st.text(max_size=30))
def test_any_text_is_a_target_or_an_error_of_ours(text):
    with contextlib.suppress(AccelError):
        assert math.isfinite(QualityTarget.parse(text).value)


@given(
    st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,10}", fullmatch=True),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_target_is_read_back_as_it_is_printed(metric, is_at_least, value):
    target = QualityTarget(metric, is_at_least, value)
    assert QualityTarget.parse(str(target)) == target
