"""Names a cell reads before it writes them: by example, and against what really happens when programs run."""

from __future__ import annotations

import textwrap
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.workload.cell_names import names_read, names_written

EVERYTHING = dict.fromkeys(["a", "b", "c", "d"], 1)

READS = [
    ("order of use", "print(b); a = c", ["b", "c"]),
    ("written first", "a = 1; b = a", []),
    ("augmented assignment reads", "a += 1", ["a"]),
    ("del reads", "del a", ["a"]),
    ("subscript and attribute targets read their base", "a[b] = 1; c.x = 2", ["a", "b", "c"]),
    ("one branch only", "if b:\n    a = 1\nprint(a)", ["b", "a"]),
    ("both branches", "if b:\n    a = 1\nelse:\n    a = 2\nprint(a)", ["b"]),
    ("a loop may run no turn", "for a in b: c = 1\nprint(a, c)", ["b", "a", "c"]),
    ("while", "while a:\n    b = 1\nprint(b)", ["a", "b"]),
    ("try body may stop early", "try:\n    a = 1\nexcept b as c:\n    print(c)\nprint(a)", ["b", "a"]),
    ("with body runs through", "with a as b:\n    c = b\nprint(c)", ["a"]),
    ("unless it swallows", "with suppress(a):\n    c = 1\nprint(c)", ["a", "c"]),
    ("comprehension targets are local", "[a for a in b if a]; print(c)", ["b", "c"]),
    ("comprehension names in order", "{a: d for a in b for d in a if c}", ["b", "c"]),
    ("walrus writes", "print(a := b, a)", ["b"]),
    ("walrus behind `and` may not run", "b and (a := 1); print(a)", ["b", "a"]),
    ("f-string", "f'{a:{b}} {c!r}'", ["a", "b", "c"]),
    ("match", "match a:\n    case {'k': b, **c}:\n        print(b, c)\n    case d:\n        print(d)", ["a"]),
    ("lambda read when it is used", "f = lambda x: a + x\na = 1\nf(2)", []),
    ("lambda used too early", "f = lambda x: a + x\nf(2)\na = 1", ["a"]),
    ("lambda passed on", "g(lambda x: a + x)", ["a"]),
    ("lambda in a comprehension", "[lambda: a + b for a in c]", ["c", "b"]),
    ("function read when it is used", "def f():\n    return a\na = 1\nf()", []),
    ("function never used", "def f():\n    return a", []),
    ("functions that call each other", "def f():\n    return g()\ndef g():\n    return a\nf()", ["a"]),
    ("defined after it was handed on", "def f():\n    g()\nkeep = [f]\ndef g():\n    print(a)\nkeep[0]()", ["a"]),
    ("defaults and decorators run at once", "@a\ndef f(x=b): pass", ["a", "b"]),
    ("a decorator may call at once", "@staticmethod\ndef f():\n    return a", ["a"]),
    ("class body runs at once", "class K(a):\n    x = b\n    def m(self):\n        return c\n", ["a", "b"]),
    ("methods when the class is used", "class K:\n    def m(self):\n        return c\nK().m()", ["c"]),
    ("global in a function", "def f():\n    global a\n    a = b\nf()", ["b"]),
    ("builtins are not read", "print(len([]))", []),
    ("a call in one branch", "def f():\n    print(a)\nif b:\n    a = 1\n    f()\nelse:\n    f()", ["b", "a"]),
    ("imports write", "import a.x, b as c\nfrom z import d\nprint(a, c, d)", []),
    ("does not compile", "return a", []),
    ("await at the top", "await a", ["a"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "expected"), [case[1:] for case in READS], ids=[case[0] for case in READS]
)
def test_names_read_by(source: str, expected: list[str]) -> None:
    assert list(names_read(source, EVERYTHING)) == expected


def test_a_shadowed_builtin_is_read_and_a_missing_name_is_not() -> None:
    assert names_read("len(x); nowhere", {"len": 3}) == ("len",)


def test_names_written_are_those_of_the_top_level() -> None:
    source = """
    import numpy as np, os.path
    from x import y as z
    a, (b, *c) = 1, (2, 3)
    for d in []: e = 1
    with open("f") as f: pass
    def g(): inner = 1
    class H: attribute = 1
    [i for i in a if (j := i)]
    try: pass
    except E as k: pass
    n: int
    o: int = 1
    """
    written = names_written(textwrap.dedent(source))
    assert written == ("np", "os", "z", "a", "b", "c", "d", "e", "f", "g", "H", "j", "k", "o")


def earlier_cells(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(textwrap.dedent(source), namespace)
    return namespace


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("step()", {"step", "rate", "inner", "deep"}),
        ("rate = 2; step()", {"step", "inner", "deep"}),
        ("Trainer().fit()", {"Trainer", "epochs", "step", "rate", "inner", "deep"}),
        ("trainer.fit()", {"trainer", "epochs", "step", "rate", "inner", "deep"}),
        ("fits[0]()", {"fits", "epochs", "step", "rate", "inner", "deep"}),
        ("partly()", {"partly", "rate", "inner", "deep"}),
        ("wrapped()", {"wrapped", "rate", "inner", "deep"}),
        ("comprehended()", {"comprehended", "epochs", "rate"}),
        ("mine.size", {"mine", "epochs"}),
    ],
)
def test_functions_classes_and_instances_of_earlier_cells_are_followed(cell: str, expected: set[str]) -> None:
    namespace = earlier_cells(
        """
        import functools
        rate, deep, epochs, unused = 1, 2, 3, 4
        def inner():
            def nested():
                return deep
            return nested()
        def step():
            return rate + inner()
        class Base:
            def fit(self):
                for _ in range(epochs):
                    step()
        class Trainer(Base):
            pass
        trainer = Trainer()
        fits = [trainer.fit]
        partly = functools.partial(step)
        def decorate(f):
            @functools.wraps(f)
            def call(*args):
                return f(*args)
            return call
        wrapped = decorate(step)
        def comprehended():
            return [rate * i for i in range(epochs)]
        class Sized:
            @property
            def size(self):
                return epochs
        mine = Sized()
        """
    )
    assert set(names_read(cell, namespace)) == expected


def test_the_shell_of_a_magic_in_the_cell_does_not_lead_to_every_name() -> None:
    namespace = earlier_cells(
        """
        unused = 1
        def other():
            return unused
        class Shell:
            def get_ipython(self):
                return self
        """
    )
    shell = namespace["Shell"]()
    shell.user_ns, shell.outputs = namespace, {1: namespace["other"]}
    namespace["get_ipython"] = shell.get_ipython
    assert names_read("get_ipython().run_line_magic('time', '1')", namespace) == ("get_ipython",)


class FirstAccess(dict[str, Any]):
    """A namespace that remembers which names were read or deleted before they were written."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.written: set[str] = set()
        self.read_first: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if name not in self.written:
            self.read_first.add(name)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self.written.add(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self.written:
            self.read_first.add(name)
        super().__delitem__(name)


name = st.sampled_from("abcd")
value = st.one_of(
    name,
    st.integers(0, 2).map(str),
    st.tuples(name, name).map(lambda p: f"({p[0]} or {p[1]})"),
    st.tuples(name, name).map(lambda p: f"({p[0]} := {p[1]})"),
    st.tuples(name, name, name).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
    st.tuples(name, name).map(lambda p: f"len([{p[0]} for {p[0]} in range(2) if {p[1]}])"),
    st.tuples(name, name).map(lambda p: f"(lambda {p[0]}: {p[1]})(1)"),
    st.tuples(name, name, name).map(lambda p: f"int({p[0]} < {p[1]} < {p[2]})"),
    st.sampled_from("fg").map(lambda f: f"{f}()"),
)
simple = st.one_of(
    st.tuples(name, value).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(name, value).map(lambda p: f"{p[0]} += {p[1]}"),
    name.map(lambda n: f"del {n}"),
    value,
    st.tuples(st.sampled_from("fg"), value).map(lambda p: f"{p[0]} = lambda: {p[1]}"),
)


def indented(lines: list[str]) -> str:
    return textwrap.indent("\n".join(lines), "    ")


def compound(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(children, min_size=1, max_size=3).map(indented)
    return st.one_of(
        st.tuples(value, body).map(lambda p: f"if {p[0]}:\n{p[1]}"),
        st.tuples(value, body, body).map(lambda p: f"if {p[0]}:\n{p[1]}\nelse:\n{p[2]}"),
        st.tuples(name, st.integers(0, 2), body).map(lambda p: f"for {p[0]} in range({p[1]}):\n{p[2]}"),
        st.tuples(name, body, body).map(
            lambda p: f"for {p[0]} in range(2):\n{p[1]}\n    break\nelse:\n{p[2]}"
        ),
        st.tuples(body, body).map(lambda p: f"try:\n{p[0]}\nexcept Exception:\n{p[1]}"),
        st.tuples(body, name, body, body).map(
            lambda p: f"try:\n{p[0]}\nexcept Exception as {p[1]}:\n{p[2]}\nfinally:\n{p[3]}"
        ),
        st.tuples(st.sampled_from("fg"), value).map(lambda p: f"def {p[0]}():\n    return {p[1]}"),
        st.tuples(value, name, body).map(
            lambda p: f"match {p[0]}:\n  case 0:\n{p[2]}\n  case {p[1]}:\n{p[2]}"
        ),
    )


programs = st.lists(st.recursive(simple, compound, max_leaves=6), min_size=1, max_size=7).map("\n".join)


@settings(max_examples=200, deadline=None)
@given(programs)
def test_every_name_a_program_reads_first_is_among_the_names_read(program: str) -> None:
    start = {"a": 0, "b": 1, "c": 2, "d": 0}
    exec("def f(): return a + b\ndef g(): return f() + c", start)
    namespace = FirstAccess(start)
    functions = {"f": start["f"], "g": start["g"]}
    for (
        function_name,
        function,
    ) in functions.items():  # as in a notebook: the globals of earlier functions are the namespace
        dict.__setitem__(namespace, function_name, type(function)(function.__code__, namespace))
    expected = names_read(program, namespace)
    namespace.read_first.clear()
    # A name was deleted, an exception was added to a number: what was read until then still counts.
    with suppress(NameError, TypeError, RecursionError):
        exec(compile(program, "<program>", "exec"), namespace, namespace)
    known = {"a", "b", "c", "d", "f", "g"}
    assert namespace.read_first & known <= set(expected), program
