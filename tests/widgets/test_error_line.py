from __future__ import annotations

from accel.errors import AccelError
from accel_widgets.error_line import ErrorLine


def test_an_error_of_ours_is_its_three_parts():
    errors = ErrorLine()

    def refuse() -> None:
        raise AccelError("Keep", because="nothing was tried", do="Press Try first.")

    errors.guard(refuse)()
    assert 'role="alert"' in errors.value
    assert "Keep: nothing was tried. Press Try first." in errors.value
    assert "Traceback" not in errors.value


def test_any_other_error_comes_with_its_traceback_and_stays_text():
    errors = ErrorLine()
    errors.guard(lambda: {}["<b>key</b>"])()
    assert "KeyError" in errors.value
    assert "Traceback" in errors.value
    assert "<b>key</b>" not in errors.value


def test_a_click_that_goes_well_clears_it_but_a_redraw_does_not():
    errors = ErrorLine()
    errors.show_text("the worker was killed")
    errors.guard(lambda: None, clears=False)()
    assert "the worker was killed" in errors.value
    errors.guard(lambda: None)()
    assert errors.value == ""
