"""A model's call is wrapped in place: nothing but the call changes, and undo leaves no trace."""

from __future__ import annotations

import copy
import functools
import pickle

import pytest
import torch
from torch import nn

from accel.accelerations.autocast import Autocast
from accel.accelerations.compile_model import CompileModel
from accel.plans.plan import Plan
from accel.techniques.model.model_call import distinct, find_wrapper, is_compiled_by_user, wrapped_call
from accel.workload import Replica


class Doubled:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, *args):
        return 2 * self.inner(*args)


class Plus(Doubled):
    def __call__(self, *args):
        return self.inner(*args) + 1


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(3, 3)


x = torch.ones(2, 3)


def test_wrappers_stack_and_come_off_last_on_first_off(model):
    plain, before = model(x), dict(vars(model))
    with wrapped_call(model, Doubled):
        with wrapped_call(model, Plus):
            assert torch.equal(model(x), 2 * plain + 1)
            assert isinstance(find_wrapper(model, Doubled), Doubled)
            assert type(find_wrapper(model, Plus)) is Plus
        assert find_wrapper(model, Plus) is None
        assert torch.equal(model(x), 2 * plain)
    assert vars(model) == before


def test_a_slot_that_was_set_to_none_is_none_again(model):
    model._compiled_call_impl = None
    with wrapped_call(model, Doubled):
        pass
    assert vars(model)["_compiled_call_impl"] is None


def test_copies_and_pickles_are_of_the_plain_model(model):
    plain, keys = model(x), list(model.state_dict())
    with wrapped_call(model, Doubled):
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(copied(x), plain)
        assert list(model.state_dict()) == keys
        assert type(model) is nn.Linear


def test_hooks_of_the_user_still_run_once(model):
    seen = []
    model.register_forward_hook(lambda *_: seen.append(1))
    with wrapped_call(model, Doubled):
        model(x)
    assert seen == [1]


def test_a_compile_of_the_users_own_made_meanwhile_stays(model):
    with wrapped_call(model, Doubled):
        model.compile(backend="eager")
        theirs = vars(model)["_compiled_call_impl"]
    assert vars(model)["_compiled_call_impl"] is theirs


def test_the_users_compile_is_told_from_ours(model):
    other = nn.Linear(3, 3)
    with Plan((CompileModel(), Autocast())).apply(Replica(models={"model": model})):
        assert not is_compiled_by_user(model)
    other.compile(backend="eager")
    with wrapped_call(other, Doubled):
        assert is_compiled_by_user(other)
    assert is_compiled_by_user(torch.compile(model, backend="eager"))


def test_works_round_a_model_that_the_user_compiled(model):
    plain = model(x)
    for compiled in (torch.compile(model, backend="eager"), model):
        if compiled is model:
            model.compile(backend="eager")
        with wrapped_call(compiled, Doubled):
            assert torch.allclose(compiled(x), 2 * plain)
        assert torch.allclose(compiled(x), plain)


@pytest.mark.compiles
def test_switching_marks_of_a_profile_on_and_off_compiles_nothing_anew(model):
    from torch._dynamo.utils import counters

    original = nn.Module.__call__

    @functools.wraps(original)
    def marked(self, *args, **kwargs):
        if torch.compiler.is_compiling():
            return original(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    with CompileModel().apply(Replica(models={"model": model})):
        model(x)
        graphs = counters["stats"]["unique_graphs"]
        for call in (marked, original, marked, original):
            nn.Module.__call__ = call
            model(x)
    nn.Module.__call__ = original
    assert counters["stats"]["unique_graphs"] == graphs


def test_one_model_under_two_names_is_wrapped_once(model):
    assert distinct({"model": model, "net": model}) == [("model", model)]
