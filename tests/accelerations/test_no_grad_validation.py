"""Calls in eval mode record nothing; whatever wants a gradient after all gets it, or a clear error."""

from __future__ import annotations

from collections import namedtuple
from contextlib import nullcontext

import pytest
import torch
from small_training import Training, training, workload_of
from torch import nn
from trainings_with_waste import validating

from accel.accelerations.autocast import Autocast
from accel.accelerations.no_grad_validation import NoGradValidation
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workload import Replica
from accel.workload.capture import CellCapture

ENTRY = NoGradValidation()
IMAGES = torch.ones(4, 3, 8, 8)


def in_eval(model, *inputs, calls=2):
    """The last of some calls in eval mode; the first one tells what the results are like, and records."""
    model.eval()
    return [model(*inputs) for _ in range(calls)][-1]


@pytest.fixture(params=["live", "exported"])
def in_force(request):
    """The entry in force for models, as `%accel keep` does it or by running the exported lines."""

    def live(**models):
        return ENTRY.apply(Replica(models=models))

    def exported(**models):
        code = ENTRY.as_code(workload_of(Replica(models=models), models))
        exec(code, {**models, "__name__": "__main__"})
        return nullcontext()

    return {"live": live, "exported": exported}[request.param]


def refused():
    return pytest.raises((AccelError, RuntimeError), match="no_grad_validation recorded no graph")


def test_activations_are_not_kept(in_force):
    kept = []

    def note(tensor):
        kept.append(tensor)
        return tensor

    made = training()
    with in_force(model=made.model):
        in_eval(made.model, IMAGES)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            made.model(IMAGES)
            assert kept == []
            made.model.train()(IMAGES)
            assert kept


def test_losses_of_training_and_validation_are_the_same(in_force):
    usual, made = validating().epochs(3), validating()
    with in_force(model=made.model):
        assert made.epochs(3) == usual


def test_a_backward_through_a_call_in_eval_mode_raises_and_says_what_to_do(in_force):
    made = training()
    with in_force(model=made.model):
        output = in_eval(made.model, IMAGES)
        assert output.requires_grad
        with refused():
            output.sum().backward()


def test_a_loss_of_which_only_a_part_was_made_in_eval_mode_raises_too(in_force):
    """Without a guard the gradient of that part would be missing, and nobody told."""
    made = training()
    with in_force(model=made.model):
        part = in_eval(made.model, IMAGES).sum()
        whole = part + made.model.train()(IMAGES).sum()
        with refused():
            whole.backward()


def test_an_input_that_wants_a_gradient_gets_it(in_force):
    made, images = training(), IMAGES.clone().requires_grad_()
    with in_force(model=made.model):
        in_eval(made.model, IMAGES)
        made.model(images).sum().backward()
    assert images.grad.abs().sum() > 0


def test_training_within_the_same_autocast_finds_no_weights_without_a_graph(in_force):
    made = training()
    with in_force(model=made.model):
        in_eval(made.model, IMAGES)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            in_eval(made.model, IMAGES)
            made.model.train()(IMAGES).float().sum().backward()
    assert all(p.grad is not None for p in made.model.parameters())


def test_results_can_be_changed_in_place_and_an_input_handed_back_stays_as_it_is(in_force):
    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return x, self.linear(x).view(-1)

    model, inputs = Same(), torch.ones(1, 2)
    with in_force(model=model):
        same, output = in_eval(model, inputs)
        output.sigmoid_()
    assert (same.requires_grad, inputs.requires_grad, output.grad_fn is not None) == (True, False, True)


def test_results_in_named_tuples_are_guarded_and_unknown_classes_are_left_to_autograd(in_force):
    Pair = namedtuple("Pair", "logits index")

    class Result:
        def __init__(self, logits):
            self.logits = logits

    class Model(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.linear, self.kind = nn.Linear(2, 2), kind

        def forward(self, x):
            logits = self.linear(x)
            return Pair(logits, torch.arange(2)) if self.kind is Pair else Result(logits)

    pairs, results = Model(Pair), Model(Result)
    with in_force(pairs=pairs, results=results):
        with refused():
            in_eval(pairs, torch.ones(1, 2)).logits.sum().backward()
        in_eval(results, torch.ones(1, 2)).logits.sum().backward()
    assert results.linear.weight.grad is not None


def test_what_the_refused_backward_raises_says_what_to_do_in_the_notebook_and_in_a_script():
    made = training()
    with ENTRY.apply(made.replica()), pytest.raises(AccelError, match="%accel undo no_grad_validation"):
        in_eval(made.model, IMAGES).sum().backward()
    names = made.namespace
    exec(ENTRY.as_code(made.workload()), names)
    with pytest.raises(RuntimeError, match=r"Take ModelRecordingInTraining out, or call model\.train\(\)"):
        in_eval(made.model, IMAGES).sum().backward()


def test_exported_lines_may_run_twice():
    usual, made = validating().epochs(3), validating()
    for _ in range(2):
        exec(ENTRY.as_code(made.workload()), made.namespace)
    assert made.epochs(3) == usual


def test_calls_that_the_cell_itself_makes_without_gradients_are_not_counted():
    made = training()
    with ENTRY.apply(made.replica()):
        with torch.no_grad():
            in_eval(made.model, IMAGES)
        assert "no call in eval mode" in ENTRY.took_effect(made.replica()).evidence


def test_it_goes_together_with_autocast():
    made = validating()
    with Plan((ENTRY, Autocast())).apply(made.replica()):
        made.epochs(2)
        proofs = dict(Plan((ENTRY, Autocast())).proofs(made.replica()))
    assert all(proof.took_effect for proof in proofs.values())


TRAIN = """
for images, targets in loader:
    optimizer.zero_grad()
    criterion(model(images), targets).backward()
    optimizer.step()
"""
VALIDATE = "for images, targets in loader:\n    criterion(model(images), targets)\n"


def reasons(cell):
    namespace = training().namespace | {"torch": torch}
    capture = CellCapture(cell, cell, namespace)
    with capture:
        exec(compile(cell, capture.filename, "exec"), namespace)
    return ENTRY.why_not(capture.finish()[0], read_machine())


def test_validation_in_eval_mode_with_gradients_on_is_what_it_is_for():
    assert reasons(TRAIN + "model.eval()\n" + VALIDATE + "model.train()\n" + TRAIN) == []


@pytest.mark.parametrize("cell", ["model.eval()\n" + TRAIN, "model.eval()\n" + TRAIN + VALIDATE])
def test_training_in_eval_mode_is_refused_with_its_line(cell):
    (reason,) = reasons(cell)
    assert "line 5 is in eval mode, and a backward goes through" in str(reason)


def test_a_cell_that_validates_without_gradients_needs_nothing():
    off = "model.eval()\nwith torch.no_grad():\n    " + VALIDATE.replace("\n", "\n    ")
    assert "nothing is lost" in str(reasons(TRAIN + off)[0])
    assert "nothing is lost" in str(reasons(TRAIN)[0])


def test_validation_in_training_mode_is_told_to_call_eval():
    assert "Call model.eval() before it" in str(reasons(TRAIN + VALIDATE)[0])


def test_a_model_that_is_hidden_by_torch_compile_is_a_reason():
    made = training()
    made = Training(**made.namespace | {"model": torch.compile(made.model)}, built_by=training)
    (reason,) = ENTRY.why_not(made.workload(), read_machine())
    assert "hides the model inside" in str(reason)


JUDGED = """
judge.eval()
for images, targets in loader:
    made = model(images)
    optimizer.zero_grad()
    made.square().mean().backward()
    optimizer.step()
    judge(images)
"""


def test_training_one_model_in_eval_mode_is_no_reason_against_another_one():
    judge = training().model
    namespace = training().namespace | {"torch": torch, "judge": judge}
    cell = "model.eval()" + JUDGED
    capture = CellCapture(cell, cell, namespace)
    with capture:
        exec(compile(cell, capture.filename, "exec"), namespace)
    workload = capture.finish()[0]

    def reasons_on(plan):
        return Plan.parse(plan).resolved(workload).why_not(workload, read_machine())

    assert "in eval mode, and a backward" in str(reasons_on("no_grad_validation"))
    assert "in eval mode, and a backward" in str(reasons_on('no_grad_validation(on="model")'))
    assert reasons_on('no_grad_validation(on="judge")') == {}
