"""Between two steps a model is judged, and everything that judging moves is put back."""

from __future__ import annotations

import random

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.errors import AccelError
from accel.processes.failure import Failed
from accel.workers.evaluating import Evaluator
from accel.workers.held_out_metrics import accuracy_on, loss_on
from accel.workers.messages import Evaluated, QualityQuestion
from accel.workload.generators import generator_states
from accel.workload.replica import Replica


def notebook(metric=None):
    """A namespace in the middle of a training: one layer in evaluation mode, as a frozen backbone is."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(50, 4), torch.randint(0, 3, (50,)))
    own = torch.Generator().manual_seed(7)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    model[0].eval()
    return {
        "model": model, "loader": DataLoader(data, batch_size=10), "metric": metric, "criterion": nn.CrossEntropyLoss(),
        "val_loader": DataLoader(data, batch_size=20, shuffle=True, generator=own), "own": own,
    }  # fmt: skip


def asked(namespace, metric="metric", **settings):
    given = {
        "is_built_in": metric in ("accuracy", "loss"),
        "arguments": 2,
        "seed": 0,
        "start": "same",
        "repeats": True,
        **settings,
    }
    question = QualityQuestion(
        metric=metric, held_out="val_loader", model="model", model_class="Sequential", criterion="criterion",
        training_loader="loader", **given,
    )  # fmt: skip
    return Evaluator(question, namespace, [Replica(models={"model": namespace["model"]})], "<cell>")


def fingerprint(namespace):
    model = namespace["model"]
    return (
        [module.training for module in model.modules()],
        [buffer.clone() for buffer in model.buffers()],
        [repr(state) for state in generator_states().values()],
        namespace["own"].get_state(),
    )


def careless(model, loader):
    """Trains statistics, draws from every generator, and leaves the modes as it likes."""
    model.train()
    random.random(), numpy.random.rand(), torch.rand(3)
    for inputs, _ in loader:
        model(inputs)
    return 0.5


@pytest.mark.parametrize("metric", ["metric", "accuracy", "loss"])
def test_modes_statistics_and_random_numbers_are_as_before(metric):
    namespace = notebook(careless)
    before = fingerprint(namespace)
    assert isinstance(asked(namespace, metric)(), Evaluated)
    after = fingerprint(namespace)
    assert after[0] == before[0]
    assert all(map(torch.equal, after[1], before[1]))
    assert after[2] == before[2]
    assert torch.equal(after[3], before[3])


def test_the_model_is_judged_in_evaluation_mode_and_without_gradients():
    seen = []

    def look(model):
        seen.append((model.training, model[2].training, torch.is_grad_enabled()))
        return torch.tensor(0.25)

    found = asked(notebook(look), arguments=1)()
    assert (found.value, found.has_model, seen) == (0.25, True, [(False, False, False)])


def test_an_error_of_the_metric_is_an_answer_and_leaves_everything_as_before():
    def broken(model, loader):
        model.train()
        raise KeyError("label")

    namespace = notebook(broken)
    before = fingerprint(namespace)
    failed = asked(namespace)()
    assert isinstance(failed, Failed)
    assert "KeyError: 'label'" in failed.traceback
    assert fingerprint(namespace)[0] == before[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), torch.tensor(float("nan"))])
def test_what_is_not_a_finite_number_is_told_as_none(value):
    assert asked(notebook(lambda model, loader: value))().value is None


def test_before_the_cell_has_made_its_model_there_is_nothing_to_judge():
    namespace = notebook(careless)
    evaluator = Evaluator(asked(namespace)._question, {**namespace, "model": None}, [Replica()], "<cell>")
    found = evaluator()
    assert (found.value, found.has_model) == (None, False)


def test_accuracy_and_loss_are_means_over_samples_whatever_the_batches():
    namespace = notebook()
    model, (inputs, targets) = namespace["model"].eval(), namespace["loader"].dataset.tensors
    for batch_size in (50, 16, 7):
        loader = DataLoader(TensorDataset(inputs, targets), batch_size=batch_size)
        with torch.no_grad():
            assert accuracy_on(model, loader) == pytest.approx(
                float((model(inputs).argmax(1) == targets).float().mean())
            )
            whole = float(nn.functional.cross_entropy(model(inputs), targets))
            for reduction in ("mean", "none", "sum"):
                criterion = nn.CrossEntropyLoss(reduction=reduction)
                assert loss_on(model, loader, criterion) == pytest.approx(whole, rel=1e-5)


class Fixed(nn.Module):
    """Gives the same outputs for whatever it is asked."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs = outputs

    def forward(self, inputs):
        return self.outputs


def accuracy_of(outputs, targets, **settings):
    return accuracy_on(Fixed(outputs), [(torch.zeros(len(targets), 1), targets)], **settings)


@pytest.mark.parametrize("classes_come_last", [False, True])
def test_scores_of_every_place_in_a_sequence_may_have_the_classes_second_or_last(classes_come_last):
    targets = torch.randint(0, 7, (3, 5))
    scores = nn.functional.one_hot(targets, 7).float()
    scores[0, 0] = 1 - scores[0, 0]  # one wrong answer
    assert accuracy_of(scores if classes_come_last else scores.transpose(1, 2), targets) == pytest.approx(
        14 / 15
    )


def test_scores_that_do_not_fit_the_targets_or_fit_in_two_ways_are_refused():
    targets = torch.randint(0, 5, (3, 5))
    with pytest.raises(AccelError, match="two dimensions could be the classes") as raised:
        accuracy_of(torch.zeros(3, 5, 5), targets)
    assert "--metric" in raised.value.do
    with pytest.raises(AccelError, match=r"outputs float32 \(3, 6, 7\)"):
        accuracy_of(torch.zeros(3, 6, 7), targets)


@pytest.mark.parametrize("ignored", [-100, 0])
def test_targets_that_the_criterion_ignores_do_not_count(ignored):
    targets = torch.tensor([1, 2, ignored, ignored])
    outputs = nn.functional.one_hot(torch.tensor([1, 3, 3, 0]), 4).float()
    assert accuracy_of(outputs, targets, ignored=ignored) == 0.5
    namespace = notebook()
    namespace["model"], namespace["criterion"] = Fixed(outputs), nn.CrossEntropyLoss(ignore_index=ignored)
    namespace["val_loader"] = [(torch.zeros(4, 1), targets)]
    assert asked(namespace, metric="accuracy")().value == 0.5
