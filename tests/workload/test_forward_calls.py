"""What is noted of each call of a model, and of each step's end: line, mode, graph, page faults, settings."""

from __future__ import annotations

import pytest
import torch
from capturing import capture, notebook
from torch.overrides import TorchFunctionMode

from accel.workload.module_calls import sample_counting, samples_of_call

TRAIN = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
VALIDATE = """
model.eval()
with torch.no_grad():
    for x, y in loader:
        model(x)
"""


def test_each_call_is_noted_with_its_line_and_its_mode() -> None:
    _, recording = capture(TRAIN + VALIDATE, notebook())
    assert [call.line for call in recording.forward_calls] == [4] * 6 + [10] * 6
    assert [call.is_training for call in recording.forward_calls] == [True] * 6 + [False] * 6
    assert {call.function for call in recording.forward_calls} == {"<module>"}


def test_autograd_records_nodes_where_gradients_are_on_and_none_where_they_are_off() -> None:
    _, recording = capture(TRAIN + VALIDATE, notebook())
    assert all(call.nodes > 0 for call in recording.forward_calls[:6])
    assert all(call.nodes == 0 for call in recording.forward_calls[6:])


def test_a_call_in_a_function_is_noted_with_the_line_and_name_of_the_function() -> None:
    namespace = notebook()
    exec(compile("def evaluate(model, x):\n    return model(x)\n", "earlier cell", "exec"), namespace)
    _, recording = capture("evaluate(model, X)", namespace)
    (call,) = recording.forward_calls
    assert (call.filename, call.line, call.function) == ("earlier cell", 2, "evaluate")


def test_a_call_that_raises_is_noted_all_the_same() -> None:
    _, recording = capture("model(X[:, :3])", notebook(), raises=RuntimeError)
    assert len(recording.forward_calls) == 1


def test_calls_of_a_loss_are_not_calls_of_a_model() -> None:
    _, recording = capture("criterion(X[:, :3], Y)", notebook())
    assert recording.forward_calls == ()


def test_page_faults_so_far_are_noted_at_each_boundary_and_never_go_down() -> None:
    _, recording = capture(TRAIN, notebook())
    faults = [note.page_faults for note in recording.notes]
    assert len(faults) == 6
    assert faults == sorted(faults)


def test_settings_are_those_inside_the_cell_not_those_after_it() -> None:
    indented = TRAIN.replace("\n", "\n    ")
    _, recording = capture(f"with torch.autograd.set_detect_anomaly(True):{indented}", notebook())
    assert recording.conditions is not None
    assert recording.conditions.anomaly_mode
    assert not torch.is_anomaly_enabled()


def test_a_cell_without_a_backward_has_settings_too() -> None:
    _, recording = capture("model(X)", notebook())
    assert recording.conditions is not None
    assert recording.conditions.threads == torch.get_num_threads()


def test_debugging_variables_count_unless_they_are_switched_off(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("TORCH_SHOW_CPP_STACKTRACES", "0")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    _, recording = capture("model(X)", notebook())
    assert recording.conditions is not None
    assert dict(recording.conditions.debugging) == {"CUDA_LAUNCH_BLOCKING": "1"}


@pytest.mark.parametrize(
    ("model", "given", "samples"),
    [
        (torch.nn.Linear(4, 2), torch.zeros(8, 4), 8),
        (torch.nn.Linear(4, 2), torch.zeros(4), 1),  # a state of an environment
        (torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4)), torch.zeros(4), 1),
        (torch.nn.Conv2d(3, 8, 3), torch.zeros(3, 9, 9), 1),
        (torch.nn.Conv2d(3, 8, 3), torch.zeros(3, 3, 9, 9), 3),
        (torch.nn.Conv1d(2, 8, 3), torch.zeros(2, 9), 1),
        (torch.nn.Sequential(torch.nn.Unflatten(0, (16, 1)), torch.nn.Linear(1, 8)), torch.zeros(16), 16),
        (torch.nn.Embedding(9, 4), torch.zeros(4, dtype=torch.long), 4),
    ],
)
def test_one_sample_without_a_batch_round_it_is_one(
    model: torch.nn.Module, given: torch.Tensor, samples: int
) -> None:
    counting = sample_counting()
    assert [
        samples_of_call(model, [given]),
        counting(model, (given,), {}),
        counting(model, (given,), {}),
    ] == 3 * [samples]


def test_samples_are_counted_once_all_layers_of_a_model_have_their_weights() -> None:
    late, counting = torch.nn.Sequential(torch.nn.LazyLinear(2)), sample_counting()
    given = torch.zeros(8, 4)
    assert counting(late, (given,), {}) == 0
    late(given)
    assert counting(late, (given,), {}) == 8


def test_a_mode_that_gives_tensors_other_shapes_changes_no_training() -> None:
    class Lists(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            return [*found] if isinstance(found, torch.Size) else found

    cell = "with mode:" + TRAIN.replace("loader", "zip(X.split(4), Y.split(4))").replace("\n", "\n    ")
    workload, recording = capture(cell, {**notebook(), "mode": Lists()})
    assert (workload.steps, len(recording.forward_calls)) == (6, 6)
