"""Findings as a reader sees them: in a terminal, as HTML, as a table."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from accel.profiling.findings import Finding, Findings, Prediction
from accel.views.profile.findings import NOTHING

WAITING = Finding(
    kind="input_bound", title="Waiting for data: 38 % of each step", what="The training process makes each batch itself.",
    share=0.38, evidence=("data: 3.8 ms a step", "slowest transform: <Rotate>"),
    prediction=Prediction(1.4, 1.1, 1.6, "Amdahl: waiting vanishes"), suggests=("loader_workers(n=2)", "loader_workers(n=4)"),
    remedy="", wrong_when="the data set holds open files.", line=3,
)  # fmt: skip
EDIT = Finding(
    kind="hidden_synchronisation", title="Line 7 waits for the GPU", what="print(loss) reads a number back.", share=0.1,
    evidence=("1 call a step",), prediction=None, suggests=(), remedy="Print every 100 steps.", wrong_when="never.",
)  # fmt: skip


def test_the_text_has_share_evidence_gain_the_line_to_type_and_when_it_is_wrong():
    text = str(Findings((WAITING, EDIT), "this machine"))
    assert "1. Waiting for data: 38 % of each step." in text
    assert "slowest transform" in text
    assert "1.40× [1.10, 1.60] as fast (Amdahl: waiting vanishes)" in text
    assert "Try: %accel try loader_workers(n=2) loader_workers(n=4)" in text
    assert "Wrong when: the data set holds open files." in text
    assert text.endswith("this machine")


@pytest.mark.parametrize(
    ("share", "prediction", "gain"),
    [
        (0.38, Prediction(1.4, 1.1, 1.6), 1.4),
        (0.38, Prediction(0.9, 0.6, 1.1), 0.9),
        (0.4, None, 1.25),
        (0.4, Prediction(3.0, 2.0, 4.0, of="cell"), 1.25),  # says nothing of a step
        (0.0, None, 1.0),
        (1.0, None, 2.0),
        (1.7, None, 2.0),  # of something that runs during other work of the step
    ],
)
def test_the_gain_of_a_finding_is_what_is_predicted_of_a_step_else_half_of_its_share(share, prediction, gain):
    assert replace(WAITING, share=share, prediction=prediction).gain == pytest.approx(gain)


def test_a_remedy_that_is_an_edit_has_no_line_to_type():
    text = str(Findings((EDIT,), ""))
    assert "%accel try" not in text
    assert "Do: Print every 100 steps." in text


def test_no_findings_are_said_to_be_none():
    shown = Findings((), "this machine")._repr_mimebundle_()
    assert NOTHING in shown["text/plain"]
    assert NOTHING in shown["text/html"]


def test_names_of_the_users_code_are_escaped_in_html():
    shown = Findings((WAITING,), "")._repr_mimebundle_()["text/html"]
    assert "<Rotate>" not in shown
    assert "&lt;Rotate&gt;" in shown


def test_a_cell_shows_gain_and_the_line_to_type_and_folds_the_rest():
    shown = Findings((WAITING, EDIT), "this machine")._repr_mimebundle_()
    assert "38 % of each step; predicted: 1.40× [1.10, 1.60] as fast." in shown["text/plain"]
    assert "Do: Print every 100 steps." in shown["text/plain"]
    assert "Amdahl" not in shown["text/plain"]
    seen, _, folded = shown["text/html"].partition("<details>")
    assert "1.40× [1.10, 1.60] as fast<" in seen
    assert "Amdahl: waiting vanishes" in folded


def test_the_table_has_a_row_a_finding_and_the_dictionary_is_json():
    findings = Findings((WAITING, EDIT), "")
    table = findings.to_dataframe()
    assert list(table.kind) == ["input_bound", "hidden_synchronisation"]
    assert table.predicted[0] == 1.4
    assert "| input_bound | Waiting for data: 38 % of each step |" in findings.to_markdown()
    assert json.loads(json.dumps(findings.to_dict()))["rows"][0]["prediction"]["high"] == 1.6
    assert list(Findings((), "").to_dataframe().columns) == list(table.columns)
