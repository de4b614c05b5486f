"""Keywords are added in the style of the call, and comments stay beside the argument they speak of."""

from __future__ import annotations

import ast

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.exporting.call_arguments import takes_keywords_safely, with_keywords


def added(call: str, **values: object) -> str:
    return cst.Module([]).code_for_node(
        with_keywords(cst.ensure_type(cst.parse_expression(call), cst.Call), values)
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Adam()", "Adam(fused=True)"),
        ("Adam(p, lr=1e-3)", "Adam(p, lr=1e-3, fused=True)"),
        ("Adam( p )", "Adam( p, fused=True )"),
        ("Adam(p, lr=1,)", "Adam(p, lr=1, fused=True,)"),
        ("Adam(\n    p,\n)", "Adam(\n    p,\n    fused=True,\n)"),
        ("Adam(p,\n     lr=1)", "Adam(p,\n     lr=1,\n     fused=True)"),
        ("Adam(\n  p,  # all\n  lr=1,  # slow\n)", "Adam(\n  p,  # all\n  lr=1,  # slow\n  fused=True,\n)"),
        ("Adam(\n  p,\n  lr=1  # slow\n)", "Adam(\n  p,\n  lr=1,  # slow\n  fused=True\n)"),
        ("Adam(p, fused = None, lr=1)", "Adam(p, fused = True, lr=1)"),
    ],
)
def test_style_of_the_call_is_kept(before: str, after: str) -> None:
    assert added(before, fused=True) == after


SPACES = st.sampled_from(["", " ", "\n", "\n    ", "  # why\n  ", "\n\n # more\n"])


@given(
    st.lists(st.tuples(st.sampled_from("abc"), SPACES, SPACES), min_size=1, max_size=3), SPACES, st.booleans()
)
def test_any_spacing_gives_the_same_call_and_every_comment_survives(
    arguments: list[tuple[str, str, str]], end: str, has_trailing_comma: bool
) -> None:
    call = "f(" + ",".join(f"{left}{name}{right}" for name, left, right in arguments)
    call += ("," if has_trailing_comma else "") + end + ")"
    new = added(call, fused=True, workers=2)
    parsed = ast.parse(new, mode="eval").body
    assert isinstance(parsed, ast.Call)
    assert [argument.id for argument in parsed.args if isinstance(argument, ast.Name)] == [
        a for a, _, _ in arguments
    ]
    assert [keyword.arg for keyword in parsed.keywords] == ["fused", "workers"]
    assert new.count("#") == call.count("#")


@pytest.mark.parametrize("call", ["f(*a)", "f(**k)", "f(a, b, c)", "f(a, foreach=True)"])
def test_calls_that_could_clash_are_refused(call: str) -> None:
    node = cst.ensure_type(cst.parse_expression(call), cst.Call)
    assert not takes_keywords_safely(node, positional=2, unless=("foreach",))


def test_a_plain_call_is_accepted() -> None:
    node = cst.ensure_type(cst.parse_expression("f(a, b, lr=1)"), cst.Call)
    assert takes_keywords_safely(node, positional=2, unless=("foreach",))
