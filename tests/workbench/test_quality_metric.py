"""Which metric is meant, and what is wrong with a request before anything is copied."""

from __future__ import annotations

import pytest

from accel.errors import AccelError, UnknownName
from accel.workbench import Workbench
from accel.workbench.quality_metric import find_metric
from accel.workbench.quality_request import QualityRequest
from tests.workbench.test_held_out_data import CELL, SETUP

OWN = """
def accuracy(model, loader):
    return 0.5
def count(net):
    return 1.0
def score():
    return 2.0
def distance(outputs, targets):
    return 3.0
def greedy(model, loader, device):
    return 4.0
"""


@pytest.fixture
def bench():
    namespace = {"__name__": "__main__"}
    exec(SETUP, namespace)
    bench = Workbench(namespace, spare_workers=0)
    bench.profile(CELL)
    yield bench
    bench.close()


def metric_of(bench, setup="", **asked):
    exec(setup, bench.namespace)
    return find_metric(QualityRequest.of(**asked), bench.workload)


def test_accuracy_and_loss_are_built_in(bench):
    found = metric_of(bench, until="accuracy>=0.9")
    assert (found.name, found.is_built_in, found.needs_loader) == ("accuracy", True, True)
    assert metric_of(bench, until="loss<=0.1").criterion == "criterion"
    assert metric_of(bench, train_s=3.0).name == "accuracy"  # a cross entropy trains it


def test_a_function_of_the_targets_name_that_takes_a_model_comes_first(bench):
    found = metric_of(bench, OWN, until="accuracy>=0.9")
    assert (found.is_built_in, found.arguments, found.needs_loader) == (False, 2, True)
    assert metric_of(bench, until="count>=3").needs_loader is False
    assert metric_of(bench, until="score>=3").arguments == 0


def test_a_function_of_outputs_and_targets_is_another_thing(bench):
    assert metric_of(bench, "def accuracy(outputs, targets): return 0.0", until="accuracy>=0.9").is_built_in
    assert metric_of(bench, "accuracy = 0.93", until="accuracy>=0.9").is_built_in


def test_the_one_named_is_taken_by_name_or_as_it_is_and_the_target_is_its_label(bench):
    found = metric_of(bench, OWN, until="quality>=0.9", metric="count")
    assert (found.label, found.name) == ("quality", "count")
    assert metric_of(bench, train_s=3.0, metric=bench.namespace["count"], better="higher").label == "count"


@pytest.mark.parametrize(
    ("metric", "because"),
    [
        ("model", "needs more than a model and a loader"),
        ("criterion", "needs more than|not a function"),
        ("greedy", "needs more than a model and a loader"),
        ("data", "not a function"),
        (lambda model: 1.0, "not a variable"),
    ],
)
def test_what_is_no_metric_says_how_one_is_written(bench, metric, because):
    with pytest.raises(AccelError, match=because) as raised:
        metric_of(
            bench,
            OWN + "class Any:\n    def __call__(self, a, b, c): pass\nmodel = criterion = Any()",
            train_s=1.0,
            metric=metric,
        )
    assert "metric(model, loader)" in raised.value.do


def test_an_unknown_metric_gets_the_nearest_right_word(bench):
    with pytest.raises(UnknownName, match="Did you mean 'accuracy'"):
        metric_of(bench, until="acuracy>=0.9")
    with pytest.raises(UnknownName, match="count"):
        metric_of(bench, OWN, until="f1>=0.9")


def test_a_criterion_without_a_name_is_no_loss(bench):
    bench.profile(CELL.replace("criterion(model(x), y)", "nn.functional.cross_entropy(model(x), y)"))
    with pytest.raises(AccelError, match="criterion is not a variable"):
        metric_of(bench, until="loss<=0.1")


def test_the_direction_is_the_targets_or_the_names(bench):
    assert metric_of(bench, until="accuracy>=0.9").is_higher_better
    assert not metric_of(bench, until="loss<=0.1").is_higher_better
    assert not metric_of(bench, train_s=1.0, metric="loss").is_higher_better
    assert metric_of(bench, train_s=1.0).is_higher_better
    assert "lower is better" in metric_of(bench, train_s=1.0, metric="loss").described("model", "val_loader")


@pytest.mark.parametrize(
    ("name", "is_higher_better"),
    [
        *(
            ("wer", False),
            ("valCer", False),
            ("FID", False),
            ("ppl", False),
            ("test_nll", False),
            ("top5_error", False),
        ),
        *(("f1", True), ("meanIoU_score", True), ("val_accuracy", True)),
    ],
)
def test_the_direction_of_many_metrics_is_known_by_name(bench, name, is_higher_better):
    found = metric_of(bench, f"def {name}(model): return 1.0", train_s=1.0, metric=name)
    assert found.is_higher_better == is_higher_better


@pytest.mark.parametrize("name", ["cost", "number", "neg_loss", "terror", "error_score"])
def test_a_name_that_does_not_tell_the_direction_asks_for_it(bench, name):
    setup = f"def {name}(model): return 1.0"
    with pytest.raises(AccelError, match="whether higher or lower values are better") as raised:
        metric_of(bench, setup, train_s=1.0, metric=name)
    assert "--better lower" in raised.value.do
    for better in ("higher", "lower"):
        found = metric_of(bench, setup, train_s=1.0, metric=name, better=better)
        assert found.is_higher_better == (better == "higher")


@pytest.mark.parametrize(
    ("asked", "because"),
    [
        ({"seeds": 2}, "belongs to a comparison by quality"),
        ({"metric": "accuracy"}, "belongs to a comparison by quality"),
        ({"held_out": "loader"}, "belongs to a comparison by quality"),
        ({"train_s": 0.0}, "above 0"),
        ({"train_s": 1.0, "seeds": 0}, "whole number from 1 on"),
        ({"train_s": 1.0, "seeds": 1.5}, "whole number from 1 on"),
        ({"train_s": 1.0, "seeds": True}, "whole number from 1 on"),
        ({"until": "accuracy"}, "a target is"),
        ({"better": "lower"}, "belongs to a comparison by quality"),
        ({"start": "new"}, "belongs to a comparison by quality"),
        ({"train_s": 1.0, "better": "less"}, "no value of better"),
        ({"train_s": 1.0, "start": "old"}, "no value of start"),
        ({"until": "accuracy>=1", "better": "higher"}, "the sign of --until says"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(asked, because):
    with pytest.raises(AccelError, match=because):
        QualityRequest.of(**asked)


def test_nothing_of_it_asked_is_no_request():
    assert QualityRequest.of() is None
