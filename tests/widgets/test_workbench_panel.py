"""The panel over a real workbench, without a browser: what it shows, what a click does, what it leaves behind."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from torch import nn

from accel.workbench import Workbench
from accel_widgets import WorkbenchPanel, panel_of

CELL = """
for _ in range(12):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def workbench():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    namespace = {
        "model": model, "optimizer": torch.optim.Adam(model.parameters()), "criterion": nn.CrossEntropyLoss(),
        "x": torch.randn(8, 16), "y": torch.randint(4, (8,)),
    }  # fmt: skip
    bench, threads = Workbench(namespace, spare_workers=0), torch.get_num_threads()
    yield bench
    bench.close()
    torch.set_num_threads(threads)


@pytest.fixture
def panel(workbench):
    shown = WorkbenchPanel(workbench)
    yield shown
    shown.close()


def drawn(panel):
    """The panel after what was asked for has been drawn."""
    panel._updates.draw_now()
    return panel


def test_before_a_profile_it_says_what_to_do_and_a_try_shows_why_not(panel):
    assert "%%accel profile" in panel.phase_bar.note
    panel.board.rows["compile_model"].switch.value = True
    panel.board.try_button.click()
    assert 'role="alert"' in panel.errors.value
    assert "no cell was profiled yet" in panel.errors.value


def test_the_cores_are_folded_at_first_and_nobody_looks_at_them_until_they_are_opened_or_after_it_is_closed(
    panel,
):
    assert not panel.cores.is_open
    panel.cores._told(panel.cores, {"seen": True}, [])
    assert panel.cores.affinity is None
    assert not panel.cores.is_live
    panel.cores.is_open = True
    panel.cores._told(panel.cores, {"seen": True}, [])
    assert panel.cores.is_live
    panel.close()
    assert not panel.cores.is_live


def test_a_profile_fills_phase_bar_and_op_table(workbench, panel):
    profile = workbench.profile(CELL)
    drawn(panel)
    assert panel.phase_bar.headline.endswith("ms a step") or "µs" in panel.phase_bar.headline
    assert {"forward", "backward", "optimizer"} <= {phase["name"] for phase in panel.phase_bar.phases}
    assert len(panel.op_table.rows) == len(profile.rows)
    assert any("addmm" in row["op"] for row in panel.op_table.rows)


def test_the_timeline_gets_the_profile_when_it_is_opened(workbench, panel):
    workbench.profile(CELL)
    drawn(panel)
    assert panel.timeline.start_ms == b""
    panel.timeline.is_open = True
    assert "Training thread" in panel.timeline.label
    assert panel.timeline.start_ms != b""


def test_a_toggle_that_cannot_work_here_is_off_and_says_why_in_text(workbench, panel):
    panel.board.rows["loader_workers"].switch.value = True
    workbench.profile(CELL)  # there is no loader in it
    drawn(panel)
    row = panel.board.rows["loader_workers"]
    assert row.switch.disabled
    assert not row.switch.value
    assert "Not here:" in row.text.value


def test_what_cannot_work_here_is_folded_away_and_stays_as_the_user_left_it(workbench, panel):
    board = panel.board
    assert board.fold.layout.display == "none"  # before a profile nothing is known to be refused
    workbench.profile(CELL)
    drawn(panel)
    can_be_made = {name for name, row in board.rows.items() if row.make_button is not None}  # what they lack
    refused = {one.name for one in workbench.accelerations() if not one.is_applicable} - can_be_made
    assert refused
    assert {row.entry.name for row in board._refused.children} == refused
    assert {row.entry.name for row in board._list.children} == set(board.rows) - refused
    assert board.fold.description == f"▸ Show why {len(refused)} cannot work here"
    assert board._refused.layout.display == "none"
    board.fold.click()
    assert board._refused.layout.display is None
    workbench.keep("fused_optimizer")
    drawn(panel)
    assert board.is_unfolded
    board.fold.click()
    workbench.undo()
    drawn(panel)
    assert not board.is_unfolded


def test_a_row_stays_where_it_is_while_its_knobs_are_turned(workbench, panel):
    # More than there are cores, so that one a core is another number, and can be tried.
    torch.set_num_threads((os.cpu_count() or 1) + 1)
    workbench.profile(CELL)
    row = drawn(panel).board.rows["intraop_threads"]
    assert row in panel.board._list.children
    row.knobs[0].field.value = str(torch.get_num_threads())
    assert row.is_refused
    assert row in panel.board._list.children
    workbench.profile(CELL)
    assert row in drawn(panel).board._refused.children


def test_a_layer_is_named_once_in_each_part(workbench, panel):
    workbench.profile(CELL)
    for box in (drawn(panel).board._list, panel.board._refused):
        named = [row.layer.value for row in box.children if row.layer.value]
        assert named == list(dict.fromkeys(row.entry.layer for row in box.children))


def test_another_value_of_a_knob_may_work_where_this_one_does_not(workbench, panel):
    workbench.profile(CELL)
    row = drawn(panel).board.rows["intraop_threads"]
    row.knobs[0].field.value = str(torch.get_num_threads())
    assert row.switch.disabled
    assert "threads already" in row.text.value or "thread already" in row.text.value
    row.knobs[0].field.value = "1" if torch.get_num_threads() > 1 else "2"
    assert row.switch.disabled == bool(row.as_turned.why_not(workbench.workload, workbench.machine))
    assert "already" not in row.text.value


def test_every_reason_of_the_engine_is_shown(workbench, panel):
    workbench.profile(CELL)
    drawn(panel)
    from markupsafe import escape

    for one in workbench.accelerations():
        row = panel.board.rows[one.entry.name]
        for reason in one.reasons:
            if row.make_button is not None:  # an environment is all that is missing
                assert reason.environment in row.make_button.description
                assert reason.because in row.make_button.tooltip
            else:
                assert escape(str(reason)) in row.text.value


def test_without_a_kernel_reasons_are_asked_in_the_thread_that_keeps(workbench, panel, monkeypatch):
    workbench.profile(CELL)
    asked, why_not = set(), workbench.why_not

    def noting(entry):
        asked.add(threading.current_thread())
        return why_not(entry)

    monkeypatch.setattr(workbench, "why_not", noting)
    is_drawn = threading.Event()
    panel.live_line.text.observe(lambda _change: is_drawn.set(), "value")
    workbench.keep("fused_optimizer")
    assert is_drawn.wait(60)  # by a thread of its own
    assert asked == {threading.main_thread()}


def test_knobs_and_several_toggles_make_one_plan(panel):
    rows = panel.board.rows
    rows["intraop_threads"].switch.value = True
    rows["compile_model"].switch.value = True
    knob = next(control for control in rows["intraop_threads"].knobs if control.knob.name == "n")
    knob.field.value = "1"
    assert str(panel.board.plan) == "intraop_threads(n=1)+compile_model"
    assert panel.board.plans_of_each == (
        "intraop_threads(n=1)", "compile_model", "intraop_threads(n=1)+compile_model",
    )  # fmt: skip


def test_a_list_that_may_be_left_to_accel_says_so(panel):
    row = panel.board.rows["compile_model"]
    knob = next(control for control in row.knobs if control.knob.name == "dynamic")
    assert knob.field.label == "auto"
    assert knob.value is None


def test_a_knob_that_cannot_be_read_says_what_it_can_be_and_holds_up_try_but_not_tune(panel):
    row = panel.board.rows["intraop_threads"]
    row.switch.value = True
    row.knobs[0].field.value = "many"
    assert panel.board.try_button.disabled
    assert not panel.board.tune_button.disabled
    assert 'role="alert"' in panel.board._plan_line.value
    assert "a whole number" in panel.board._plan_line.value


def test_keep_and_undo_by_click_reach_the_workbench(workbench, panel):
    workbench.profile(CELL)
    panel.ladder._handle_custom_msg({"do": "keep", "plan": "fused_optimizer"}, [])
    assert str(workbench.kept) == "fused_optimizer"
    assert "fused_optimizer" in drawn(panel).live_line.text.value
    panel.live_line.undo_button.click()
    assert not workbench.kept
    assert drawn(panel).live_line.undo_button.disabled


def test_a_refused_keep_is_an_alert_and_not_lost(workbench, panel):
    workbench.profile(CELL)
    panel.ladder._handle_custom_msg({"do": "keep", "plan": "chanels_last"}, [])
    assert "channels_last" in panel.errors.value


def test_a_trial_fills_the_ladder_from_its_own_thread_and_stop_ends_it(workbench, panel):
    workbench.profile(CELL)
    changed = threading.Event()
    panel.ladder.observe(lambda change: changed.set() if change["new"] else None, "trials")
    panel.board.rows["fused_optimizer"].switch.value = True
    panel.board.try_button.click()
    assert panel.errors.value == ""
    assert changed.wait(60)
    assert panel.ladder.is_running
    assert panel.board.try_button.disabled
    panel.ladder._handle_custom_msg({"do": "stop"}, [])
    assert workbench.trials[0].is_over
    drawn(panel)
    assert not panel.ladder.is_running
    assert panel.ladder.trials[0]["state"] == "stopped"
    assert panel.ladder.trials[0]["rows"][0]["plan"] == "fused_optimizer"


def test_tune_needs_nothing_switched_on_and_its_search_is_on_the_ladder_until_stop_ends_it(workbench, panel):
    workbench.profile(CELL)
    board = drawn(panel).board
    assert board.try_button.disabled
    assert not board.tune_button.disabled
    board.tune_button.click()
    assert panel.errors.value == ""
    shown = drawn(panel).ladder.trials[0]
    assert (shown["title"], shown["is_running"]) == ("Tuning 1", True)
    assert shown["facts"][0].endswith("s of 120 s left")
    assert board.tune_button.disabled
    panel.ladder._handle_custom_msg({"do": "stop"}, [])
    shown = drawn(panel).ladder.trials[0]
    assert (shown["state"], shown["facts"][0]) == ("stopped", "Nothing was measured")
    assert not board.tune_button.disabled


def test_a_trial_by_quality_is_on_the_ladder_with_its_curves(workbench, panel):
    workbench.namespace["__name__"] = "__main__"
    exec("def right(model):\n    return (model(x).argmax(1) == y).float().mean()", workbench.namespace)
    workbench.profile(CELL)
    result = workbench.try_("fused_optimizer", train_s=0.3, seeds=1, metric="right")
    shown = drawn(panel).ladder.trials[0]
    assert [row["plan"] for row in shown["rows"]] == ["baseline", "fused_optimizer"]
    assert shown["facts"] == [result.headline]
    assert [line["plan"] for line in shown["curves"]["lines"]] == ["baseline", "fused_optimizer"]
    assert "fused_optimizer" in panel._repr_mimebundle_()["text/plain"]


def test_closed_it_listens_no_more(workbench):
    before = len(workbench._listeners)
    shown = WorkbenchPanel(workbench)
    assert len(workbench._listeners) == before + 1
    shown.close()
    assert len(workbench._listeners) == before
    workbench.profile(CELL)
    assert shown.phase_bar.phases == []


def test_the_load_is_sampled_only_while_the_panel_is_on_a_page(workbench):
    shown = WorkbenchPanel(workbench)
    assert "accel telemetry" not in {thread.name for thread in threading.enumerate()}
    shown.telemetry._handle_custom_msg({"seen": True, "view": "one"}, [])
    assert shown.telemetry.monitor.is_running
    shown.close()
    assert not shown.telemetry.monitor.is_running
    assert "accel telemetry" not in {thread.name for thread in threading.enumerate()}


def test_shown_twice_it_is_the_same_panel_until_closed(workbench):
    first = panel_of(workbench)
    assert panel_of(workbench) is first
    first.close()
    second = panel_of(workbench)
    assert second is not first
    second.close()


def test_saved_without_widgets_it_is_readable_html_and_text(workbench, panel):
    workbench.profile(CELL)
    bundle = panel._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "Forward" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert "Forward" in bundle["text/plain"]
