"""The panel over a real workbench, without a browser: what it shows, what a click does, what it leaves behind."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import comm
import pytest
import torch
from torch import nn

from accel.measuring.ladder import Ladder
from accel.workbench import Workbench
from accel_widgets import WorkbenchPanel, bar_panel, panel_of

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


def click(panel, what):
    panel.bar._handle_custom_msg({"do": what}, [])


def entry(panel, name):
    """What the board shows of an entry that can be switched on; None of another."""
    return next((each for each in panel.board.entries if each["name"] == name), None)


def refused(panel):
    """The names of what cannot work here, each with its reason."""
    return {each["name"]: group["because"] for group in panel.board.refused for each in group["names"]}


def test_before_a_profile_it_says_what_to_do_and_a_try_shows_why_not(panel):
    assert "%%accel profile" in panel.phase_bar.note
    panel.board.chosen = {"compile_model": {}}
    click(panel, "try")
    assert 'role="alert"' in panel.errors.value
    assert "no cell was profiled yet" in panel.errors.value


def test_nobody_looks_at_the_cores_until_a_page_shows_them_or_after_it_is_closed(panel):
    assert panel.cores.affinity is None
    panel.cores._told(panel.cores, {"seen": True}, [])
    assert panel.cores.is_live
    panel.close()
    assert not panel.cores.is_live


def test_what_can_be_pressed_is_heard_while_a_cell_runs(panel):
    heard = (panel.bar, panel.board, panel.ladder)
    for each in heard:
        each.comm._reply_subshell_id = "the main thread"  # where it was drawn last, as ipykernel notes it
    drawn(panel)
    assert [vars(each.comm).get("_reply_subshell_id") for each in heard] == [None, None, None]


def test_of_two_pinned_trials_it_says_which_one_is_of_another_cell(workbench, panel, monkeypatch):
    trials = [SimpleNamespace(result=Ladder((), 24.9, "", "")) for _ in range(2)]
    monkeypatch.setattr(workbench, "trials", trials)
    for first_trial, about in ((0, ""), (1, " Trial 1 is of another cell."), (2, "")):
        monkeypatch.setattr(workbench, "first_trial", first_trial)
        line = panel._compared("trial-2", "trial-1", ("Trial 2", "Trial 1"))
        assert (
            line.removeprefix("Trial 2 and Trial 1 have no plan in common that was measured in the same way.")
            == about
        )


def test_opening_it_is_few_messages(workbench, monkeypatch):
    sent = []
    monkeypatch.setattr(
        comm.DummyComm, "publish_msg", lambda self, kind, *given, **named: sent.append(kind), raising=False
    )
    WorkbenchPanel(workbench).close()
    assert 10 < len(sent) < 120  # a kernel's socket drops what comes beyond 1,000 messages


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


def test_a_switch_that_cannot_work_here_is_off_and_its_reason_stands_among_the_refused(workbench, panel):
    panel.board.chosen = {"loader_workers": {}}
    workbench.profile(CELL)  # there is no loader in it
    drawn(panel)
    assert panel.board.chosen == {}
    assert entry(panel, "loader_workers") is None
    assert "No DataLoader was seen" in refused(panel)["loader_workers"]


def test_what_cannot_work_here_is_merged_by_its_reason_and_every_reason_is_shown(workbench, panel):
    assert panel.board.refused == []  # before a profile nothing is known to be refused
    workbench.profile(CELL)
    drawn(panel)
    missing = {each["name"]: each["make"] for each in panel.board.entries if each["make"]}
    for one in workbench.accelerations():
        for reason in one.reasons:
            if one.name in missing:  # an environment is all that is missing
                assert reason.because == missing[one.name]["because"]
            else:
                assert str(reason) in refused(panel)[one.name]
    reasons = [group["because"] for group in panel.board.refused]
    assert len(set(reasons)) == len(reasons) < len(refused(panel))
    names = {each["name"] for each in panel.board.entries}
    assert names.isdisjoint(refused(panel))
    assert names | set(refused(panel)) == {one.name for one in workbench.accelerations()}


def test_another_value_of_a_knob_may_work_where_this_one_does_not(workbench, panel):
    torch.set_num_threads(1)
    workbench.profile(CELL)
    drawn(panel)
    panel.board.chosen = {"intraop_threads": {"n": "1"}}
    assert (
        "already" in entry(panel, "intraop_threads")["why_not"][0]
    )  # it stays where it is while its knobs are turned
    assert panel.bar.is_problem
    assert "try" not in panel.bar.can
    panel.board.chosen = {"intraop_threads": {"n": "2"}}
    why_not = workbench.why_not(
        panel.board.as_turned("intraop_threads")
    )  # nothing, where there are two cores
    assert entry(panel, "intraop_threads")["why_not"] == [str(reason) for reason in why_not]
    assert ("try" in panel.bar.can) == (not why_not)


def test_without_a_kernel_reasons_are_asked_in_the_thread_that_keeps(workbench, panel, monkeypatch):
    workbench.profile(CELL)
    asked, why_not = set(), workbench.why_not

    def noting(entry):
        asked.add(threading.current_thread())
        return why_not(entry)

    monkeypatch.setattr(workbench, "why_not", noting)
    is_drawn = threading.Event()
    panel.bar.observe(lambda _change: is_drawn.set(), "live")
    workbench.keep("fused_optimizer")
    assert is_drawn.wait(60)  # by a thread of its own
    assert asked == {threading.main_thread()}


def test_knobs_and_several_switches_make_one_plan_in_the_order_of_the_catalogue(panel):
    panel.board.chosen = {"compile_model": {}, "intraop_threads": {"n": "1"}}
    assert panel.bar.plan == str(panel.board.plan) == "intraop_threads(n=1)+compile_model"
    assert panel.board.plans_of_each == (
        "intraop_threads(n=1)", "compile_model", "intraop_threads(n=1)+compile_model",
    )  # fmt: skip
    assert {"try", "try_each", "tune"} == set(panel.bar.can)


def test_a_knob_that_cannot_be_read_says_what_it_can_be_and_holds_up_try_but_not_tune(panel):
    panel.board.chosen = {"intraop_threads": {"n": "many"}}
    assert panel.bar.can == ["tune"]
    assert panel.bar.is_problem
    assert "a whole number" in panel.bar.hint


def test_a_knob_that_may_be_left_to_accel_says_so_and_shows_its_choices(panel):
    dynamic = next(knob for knob in entry(panel, "compile_model")["knobs"] if knob["name"] == "dynamic")
    assert (dynamic["choices"], dynamic["default"]) == (["auto", "yes", "no"], "auto")
    panel.board.chosen = {"compile_model": {"dynamic": "no"}}
    assert panel.board.as_turned("compile_model").dynamic is False


def test_what_findings_advise_comes_first_and_try_this_measures_it(workbench, panel):
    assert (panel.bar.tab, panel.bar.tabs["speed_up"]) == ("profile", "Speed up")
    workbench.profile(CELL)
    drawn(panel)
    assert (panel.bar.tab, panel.bar.tabs["speed_up"]) == (
        "speed_up",
        f"Speed up ({len(panel.board.findings)})",
    )
    panel.bar.tab = "machine"  # by the user
    panel._changed("profile")
    assert drawn(panel).bar.tab == "machine"
    advised = [finding for finding in panel.board.findings if finding["plans"]]
    assert advised
    first = [each["name"] for each in panel.board.entries if each["is_first"]]
    assert first
    assert [each["name"] for each in panel.board.entries][: len(first)] == first
    panel.board._handle_custom_msg({"do": "try", "plans": advised[0]["plans"]}, [])
    assert {str(plan) for plan in workbench.trials[-1].plans} >= set(advised[0]["plans"])
    assert panel.board.is_busy or drawn(panel).board.is_busy
    workbench.trials[-1].stop()


def test_keep_undo_and_copy_by_click_reach_the_workbench(workbench, panel, monkeypatch):
    workbench.profile(CELL)
    sent = []
    monkeypatch.setattr(panel.bar, "send", lambda message: sent.append(message))
    panel.ladder._handle_custom_msg({"do": "keep", "plan": "fused_optimizer"}, [])
    assert str(workbench.kept) == "fused_optimizer"
    assert drawn(panel).bar.live == "fused_optimizer"
    panel.bar._handle_custom_msg({"do": "copy", "to": {"view": "one", "at": 5}}, [])
    assert "fused=True" in sent[0]["copy"]
    assert sent[0]["to"] == {"view": "one", "at": 5}
    assert drawn(panel).after_keep.value.endswith(
        "Profile again to see what changed: fused_optimizer is kept.</div>"
    )
    workbench.profile(CELL)
    assert "<summary" in drawn(panel).after_keep.value
    assert "fused" in panel.after_keep.value  # an operation that is new
    click(panel, "undo")
    assert drawn(panel).after_keep.value == ""
    assert not workbench.kept
    assert drawn(panel).bar.live == ""
    assert "undo" not in panel.bar.can


def test_a_refused_keep_is_an_alert_and_not_lost(workbench, panel):
    workbench.profile(CELL)
    panel.ladder._handle_custom_msg({"do": "keep", "plan": "chanels_last"}, [])
    assert "channels_last" in panel.errors.value


def test_a_trial_fills_the_ladder_from_its_own_thread_its_beat_is_on_the_bar_and_stop_ends_it(
    workbench, panel, monkeypatch
):
    workbench.profile(CELL)
    changed = threading.Event()
    panel.ladder.observe(lambda change: changed.set() if change["new"] else None, "trials")
    panel.board.chosen = {"fused_optimizer": {}}
    click(panel, "try")
    assert panel.errors.value == ""
    assert changed.wait(60)
    drawn(panel)
    assert panel.bar.beat["called"] == "Trial"
    assert not panel.bar.beat["can_stop"]  # nothing was heard since it began: a cell may wait for it
    panel.bar._handle_custom_msg({"seen": True, "view": "one"}, [])
    assert panel.bar.beat["can_stop"]
    monkeypatch.setattr(bar_panel, "HEARD_S", 0.0)  # the page was silent for so long: another cell runs
    drawn(panel)
    assert not panel.bar.beat["can_stop"]
    assert panel.bar.beat["interrupt"] == "Stop is heard when the running cell is over."
    assert panel.bar.can == []
    said = []
    panel.bar.observe(lambda change: said.append(change["new"].get("phase")), "beat")
    click(panel, "stop")
    assert workbench.trials[0].is_over
    drawn(panel)
    assert panel.bar.beat == {}
    assert panel.ladder.trials[0]["state"] == "stopped"
    assert panel.ladder.trials[0]["rows"][0]["plan"] == "fused_optimizer"


def test_tune_needs_nothing_switched_on_and_its_search_is_on_the_ladder_until_stop_ends_it(workbench, panel):
    workbench.profile(CELL)
    assert drawn(panel).bar.can == ["tune"]
    click(panel, "tune")
    assert panel.errors.value == ""
    shown = drawn(panel).ladder.trials[0]
    assert (shown["title"], shown["is_running"]) == ("Tuning 1", True)
    assert panel.bar.beat["at_most_s"] == 120
    click(panel, "stop")
    shown = drawn(panel).ladder.trials[0]
    assert (shown["state"], shown["facts"][0]) == ("stopped", "Nothing was measured")
    assert panel.bar.can == ["tune"]


def test_a_trial_by_quality_is_on_the_ladder_with_its_curves(workbench, panel):
    workbench.namespace["__name__"] = "__main__"
    exec("def right(model):\n    return (model(x).argmax(1) == y).float().mean()", workbench.namespace)
    workbench.profile(CELL)
    result = workbench.try_("fused_optimizer", train_s=0.3, seeds=1, metric="right")
    shown = drawn(panel).ladder.trials[0]
    assert drawn(panel).ladder.trials[0] is shown  # made once, as it is over
    assert [row["plan"] for row in shown["rows"]] == ["baseline", "fused_optimizer"]
    assert shown["facts"] == [result.headline]
    assert [line["plan"] for line in shown["curves"]["lines"]] == ["baseline", "fused_optimizer"]
    assert "fused_optimizer" in panel._repr_mimebundle_()["text/plain"]
    copied = []
    panel.bar.send = copied.append
    for form in ("markdown", "csv"):
        panel.ladder._handle_custom_msg(
            {"do": "copy", "trial": "trial-1", "form": form, "to": {"view": "one"}}, []
        )
    assert panel.errors.value == ""
    assert [("fused_optimizer" in each["copy"], each["to"]) for each in copied] == [
        (True, {"view": "one"})
    ] * 2
    workbench.profile(CELL)
    assert drawn(panel).ladder.trials[0]["rows"][1]["can_keep"]  # the same cell
    assert workbench.status().last_result is not None
    workbench.profile(f"{CELL}\n1 + 1")
    shown = drawn(panel).ladder.trials[0]
    assert shown["facts"][0] == "of another cell or model"
    assert not any(row["can_keep"] for row in shown["rows"])
    assert workbench.status().last_result is None


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
