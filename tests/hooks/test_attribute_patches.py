"""Replacements undone in any order: nothing that came later is dropped, nothing that was over comes back."""

from __future__ import annotations

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.hooks.attribute_patches import AttributePatches, repair_patches

OURS, THEIRS = "ours", "theirs"


def layer(name, below):
    """A wrapper that says its name, then what it lies on."""

    def call(self):
        return [name, *below(self)]

    return call


def owner_of(kind):
    """A class that has the attribute itself, or one that inherits it."""
    base = type("Base", (), {"call": lambda self: ["torch"]})
    return base if kind == "own" else type("Heir", (base,), {})


@st.composite
def histories(draw):
    """Who puts a wrapper on, and after how many further events it goes; the cell's own never go."""
    events, alive = [], []
    for number in range(draw(st.integers(1, 8))):
        events.append(("on", number, draw(st.sampled_from([OURS, OURS, THEIRS]))))
        if events[-1][2] == OURS:
            alive.append(number)
        while alive and draw(st.booleans()):
            events.append(("off", alive.pop(draw(st.integers(0, len(alive) - 1))), OURS))
    return [*events, *(("off", number, OURS) for number in draw(st.permutations(alive)))]


@given(histories(), st.sampled_from(["own", "inherited"]))
def test_what_lies_on_top_goes_with_all_below_it_that_is_over_and_what_is_covered_stays(history, kind):
    owner = owner_of(kind)
    before = dict(vars(owner))
    patches, stack, over = {}, [], set()
    for event, number, whose in history:
        if event == "on":
            stack.append((number, whose))
            if whose == OURS:
                patches[number] = AttributePatches()
                patches[number].wrap(owner, "call", lambda below, number=number: layer(number, below))
            else:
                owner.call = layer(number, owner.call)
        else:
            patches[number].take_back()
            over.add(number)
            while stack and stack[-1][0] in over:
                stack.pop()
        said = owner().call()
        assert said[0] == (stack[-1][0] if stack else "torch")
        assert [each for each in said if each not in over] == [
            *(n for n, _ in reversed(stack) if n not in over),
            "torch",
        ]
    if all(whose == OURS for _, _, whose in history):
        assert dict(vars(owner)) == before


def test_a_cover_that_goes_takes_what_was_over_below_it_along():
    owner = owner_of("own")
    original = vars(owner)["call"]
    below, above = AttributePatches(), AttributePatches()
    for patches in (below, above):
        patches.wrap(owner, "call", lambda under: layer("wrapper", under))
    below.take_back()
    assert not below.are_on
    assert above.are_on
    above.take_back()
    assert vars(owner)["call"] is original


def test_a_replacement_that_a_cell_saved_and_put_back_after_its_time_is_repaired():
    owner = owner_of("own")
    original = vars(owner)["call"]
    below, above = AttributePatches(), AttributePatches()
    for patches in (below, above):
        patches.wrap(owner, "call", lambda under: layer("wrapper", under))
    saved = vars(owner)["call"]
    below.take_back()
    above.take_back()
    owner.call = saved
    repair_patches()
    assert vars(owner)["call"] is original


def test_while_dynamo_traces_the_original_is_in_place_below_all_patches_and_then_they_lie_as_before():
    from torch._dynamo.callback import CallbackTrigger, callback_handler

    owner = owner_of("own")
    original = vars(owner)["call"]
    below, above = AttributePatches(), AttributePatches()
    for name, patches in (("below", below), ("above", above)):
        patches.wrap(owner, "call", lambda under, name=name: layer(name, under))
        patches.see_compiler()
    try:
        with callback_handler.install_callbacks(CallbackTrigger.DYNAMO, "0"):
            assert vars(owner)["call"] is original
        assert owner().call() == ["above", "below", "torch"]
    finally:
        below.take_back()
        above.take_back()
    assert vars(owner)["call"] is original


def test_what_goes_with_patches_is_undone_before_them_and_once():
    module = types.ModuleType("module")
    module.value = original = lambda: "own"
    patches, seen = AttributePatches(), []
    patches.wrap(module, "value", lambda below: lambda: "ours")
    patches.with_them(lambda: seen.append(("first", module.value())))
    patches.with_them(lambda: seen.append(("second", module.value())))
    patches.take_back()
    patches.take_back()
    assert seen == [("second", "ours"), ("first", "ours")]
    assert module.value is original


def test_an_undo_that_raises_keeps_no_other_from_being_undone():
    owner, patches, undone = owner_of("own"), AttributePatches(), []
    patches.wrap(owner, "call", lambda below: layer("ours", below))
    patches.with_them(lambda: undone.append("first"))
    patches.with_them(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        patches.take_back()
    assert owner().call() == ["torch"]
    assert undone == ["first"]
