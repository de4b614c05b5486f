"""Messages of several versions of dynamo, and anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.profiling.compilation import function_name, kind_of_guard, read_graph_break, read_guard
from accel.workload.user_code import CodeLine

TORCH_2_8 = """Graph break in user code at /tmp/lab/train.py:14
Graph Break Reason: Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.
  Hint: Set `torch._dynamo.config.capture_scalar_outputs = True`.

  Developer debug context: call_method TensorVariable() item () {}

User code traceback:
  File "/tmp/lab/train.py", line 14, in step
    return y.item()
"""
TORCH_2_14 = TORCH_2_8.replace(
    "Reason: ",
    "Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):\n\n",
)
DUPLICATE = TORCH_2_8.partition("\n\nUser")[0].replace(
    "Graph break in", "Graph break (user stack suppressed due to duplicate graph break) in"
)
SKIPPED = """Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.
torch.compile will skip tracing the frame step (/tmp/lab/train.py line 9) and fall back to eager.
The graph break occurred in the following user code:
  File "/tmp/lab/train.py", line 12, in step
    print(x)
"""
REASON = (
    "Unsupported Tensor.item() call with capture_scalar_outputs=False: Dynamo does not support tracing "
    "`Tensor.item()` with config.capture_scalar_outputs=False."
)


@pytest.mark.parametrize("message", [TORCH_2_8, TORCH_2_14, DUPLICATE])
def test_reason_and_line_of_a_graph_break(message):
    assert read_graph_break(message) == (REASON, CodeLine("/tmp/lab/train.py", 14))


def test_a_frame_that_is_skipped_tells_the_line_of_its_stack():
    reason, place = read_graph_break(SKIPPED)
    assert place == CodeLine("/tmp/lab/train.py", 12)
    assert reason.startswith("torch.compile cannot properly resume")


def test_other_messages_tell_of_no_graph_break():
    assert read_graph_break("Dynamo tracing started") is None


def test_a_guard_without_number_comment_and_stack():
    told = "1/0: s.k == 0.0                 # return x*s.k  # me/d.py:14 in forward\nUser stack trace:\n" \
           '  File "/tmp/lab/d.py", line 14, in forward\n    return x*s.k'  # fmt: skip
    assert read_guard(told) == ("s.k == 0.0", CodeLine("/tmp/lab/d.py", 14))
    assert read_guard("0/0: tensor 'x' rank mismatch") == ("tensor 'x' rank mismatch", None)


def test_guards_that_differ_in_values_only_are_of_one_kind():
    assert kind_of_guard("name == 'a'") == kind_of_guard("name == 'bb'") != kind_of_guard("title == 'a'")
    assert kind_of_guard("expected 2, actual 5") == kind_of_guard("expected 64, actual 7.5")


def test_a_function_that_dynamo_made_is_named_after_the_users():
    assert function_name("torch_dynamo_resume_in_train_step_at_7") == "train_step (after line 7)"
    assert function_name("forward") == "forward"


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    for message in (
        text,
        f"Graph break{text}",
        f"Graph break in user code at {text}\nGraph Break Reason: {text}",
    ):
        found = read_graph_break(message)
        assert found is None or (isinstance(found[0], str) and found[1].line >= 0)
    guard, _ = read_guard(text)
    assert guard
    kind_of_guard(guard), function_name(text)
