"""Two profiles side by side: what came, what went, and how carefully the difference in speed is told."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import accel
from accel.errors import AccelError
from accel.profiling.compared_ops import WITH_LOSS
from accel.profiling.op_table import OpRow
from accel.profiling.profile_diff import CAUTION
from accel.workbench import Workbench
from tests.profiling.conftest import SmallCNN
from tests.profiling.report.test_sections import EVIL, Tags

TRAIN = """
for _ in range(10):
    x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=uses_bf16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def profile_of(*, uses_bf16=False, is_compiled=False, shapes=False):
    torch.manual_seed(0)
    model = SmallCNN()
    optimizer = torch.optim.Adam(model.parameters())
    namespace = {"torch": torch, "model": model, "criterion": nn.CrossEntropyLoss(), "optimizer": optimizer}
    namespace["uses_bf16"] = uses_bf16
    if is_compiled:
        model.compile()
        # Compiled before it is profiled: a profile may end while the cell still compiles, without a compiled step in it.
        exec(TRAIN, namespace)
    workbench = Workbench(namespace, spare_workers=0)
    try:
        return workbench.profile(TRAIN, shapes=shapes)
    finally:
        workbench.close()


@pytest.fixture(scope="module")
def eager():
    return profile_of(shapes=True)


def with_rows(profile, *rows):
    """The profile with other operations: (op, phase, module, ms, calls)."""
    total = sum(ms for *_, ms, _ in rows)
    made = (OpRow(op, phase, module, ms, ms / total, calls) for op, phase, module, ms, calls in rows)
    return replace(profile, rows=tuple(made))


def changes(diff, kind):
    return {(one.op, one.module) for one in diff.changes if one.change == kind}


def test_operations_appear_vanish_speed_up_and_slow_down(real_profile):
    before = with_rows(real_profile, ("mm", "forward", "fc", 4.0, 2), ("relu", "forward", "", 1.0, 1),
                       ("add", "forward", "fc", 1.0, 1), ("mul", "forward", "fc", 1.0, 1))  # fmt: skip
    after = with_rows(real_profile, ("mm", "forward", "fc", 2.0, 2), ("gelu", "forward", "", 1.0, 3),
                      ("add", "forward", "fc", 1.1, 1), ("mul", "forward", "fc", 2.0, 1))  # fmt: skip
    diff = before.diff(after)
    assert changes(diff, "faster") == {("mm", "fc")}
    assert changes(diff, "slower") == {("mul", "fc")}
    assert changes(diff, "vanished") == {("relu", "")}
    assert changes(diff, "appeared") == {("gelu", "")}
    assert changes(diff, "alike") == {("add", "fc")}
    assert diff.changes[0].op == "mm"
    (replaced,) = diff.replacements
    assert (replaced.vanished[0].op, replaced.appeared[0].op, replaced.appeared[0].after_calls) == (
        "relu",
        "gelu",
        3,
    )


def test_the_same_profile_twice_has_no_difference(real_profile):
    diff = real_profile.diff(real_profile)
    assert {one.change for one in diff.changes} == {"alike"}
    assert diff.ratio == 1
    assert diff.replacements == ()
    assert "no difference that two single runs could tell" in str(diff)
    with pytest.raises(AccelError, match="no operation differs"):
        diff.figure()


@pytest.mark.parametrize(
    ("compiled", "inside", "outside"),
    [
        ("(Net)", "conv1", "(CrossEntropyLoss)"),
        ("head", "head.0 (Linear)", "headless"),
        ("0 (Head)", "0.fc", "00.fc"),
    ],
)
def test_a_compiled_module_stands_for_the_modules_inside_it(real_profile, compiled, inside, outside):
    before = with_rows(real_profile, ("relu", "forward", inside, 1.0, 1), ("mm", "forward", outside, 1.0, 1))
    graph = f"CompiledFxGraph in {compiled}"
    after = with_rows(
        real_profile, ("CompiledFxGraph", "forward", graph, 1.0, 1), ("mm", "forward", outside, 1.0, 1)
    )
    (replaced,) = before.diff(after).replacements
    assert (replaced.module, replaced.vanished[0].op, replaced.appeared[0].op) == (
        compiled,
        "relu",
        "CompiledFxGraph",
    )
    assert {one.module for one in before.diff(after).changes} == {compiled, outside}


def test_a_ratio_is_told_only_when_step_times_do_not_overlap_and_always_with_caution(real_profile):
    def timed(*times):
        return replace(real_profile, timing=replace(real_profile.timing, times_ms=times))

    apart = timed(10.0, 10.1, 10.2).diff(timed(5.0, 5.1, 5.2))
    assert apart.ratio == pytest.approx(10.1 / 5.1)
    assert "1.98 times as fast in these two runs" in str(apart)
    assert "1.98 times as slow in these two runs" in str(timed(5.0, 5.1, 5.2).diff(timed(10.0, 10.1, 10.2)))
    overlapping = timed(4.0, 10.0, 12.0).diff(timed(4.0, 9.0, 12.0))
    assert "times as fast" not in str(overlapping).replace(CAUTION, "")
    for diff in (apart, overlapping):
        assert "%accel try" in str(diff)
    none = timed(10.0).diff(replace(real_profile, timing=replace(real_profile.timing, times_ms=())))
    assert math.isnan(none.ratio)
    assert none.to_dict()["ratio"] is None
    assert "No training step was seen" in str(none)


def test_when_all_operations_drift_alike_the_machine_is_named_as_the_likely_cause(real_profile):
    def rows(factor):
        return [(f"op{i}", "forward", "fc", (1 + i) * factor, 1) for i in range(8)]

    slow = with_rows(real_profile, *rows(1.0)).diff(with_rows(real_profile, *rows(2.0)))
    assert "took 2 times as long: rather the machine" in " ".join(slow.notes)
    one = with_rows(real_profile, *rows(1.0)).diff(
        with_rows(real_profile, *rows(1.0)[:-1], ("op7", "forward", "fc", 1.0, 1))
    )
    assert one.notes == (CAUTION,)


def test_what_makes_two_profiles_hard_to_compare_is_told(real_profile):
    other = replace(
        real_profile, accumulation=4, machine_line="Another machine", rows=(),
        versions=(("python", "3.10.1"), ("torch", "2.8.0")), options=replace(real_profile.options, memory=True),
    )  # fmt: skip
    told = " ".join(other.diff(real_profile).notes)
    for part in ("4 batches in the first", "another machine: Another machine", "torch 2.8.0", "different options",
                 "One of them has no operations"):  # fmt: skip
        assert part in told
    assert real_profile.diff(real_profile).notes == (CAUTION,)


def test_autocast_is_seen_in_casts_and_in_the_type_of_the_convolutions(eager):
    diff = eager.diff(profile_of(uses_bf16=True, shapes=True))
    assert ("aten::_to_copy", "conv1") in changes(diff, "appeared")
    dtypes = {one.op: (one.before_dtype, one.after_dtype) for one in diff.changes if one.module == "conv2"}
    assert dtypes["aten::_convolution"] == ("float32", "bfloat16")
    assert "float32 → bfloat16" in str(diff)


@pytest.mark.compiles
def test_compile_is_seen_to_replace_what_it_fused(eager):
    diff = eager.diff(profile_of(is_compiled=True))
    forward = next(one for one in diff.replacements if (one.phase, one.module) == ("forward", "(SmallCNN)"))
    gone, new = ({one.op for one in ops} for ops in (forward.vanished, forward.appeared))
    assert {"aten::relu", "aten::max_pool2d_with_indices"} <= gone
    assert "CompiledFxGraph" in new
    kept = next(one for one in diff.changes if (one.op, one.phase) == ("aten::mkldnn_convolution", "forward"))
    assert (kept.before_calls, kept.after_calls) == (2, 2)  # those stay oneDNN's


def test_every_operation_of_both_is_in_the_table_and_in_json(eager, real_profile):
    diff = eager.diff(real_profile)
    told = json.loads(json.dumps(diff.to_dict()))
    assert len(told["changes"]) == len(diff.changes) == len(diff.to_dataframe())
    assert sum(one.before_ms for one in diff.changes) == pytest.approx(sum(row.self_ms for row in eager.rows))
    assert sum(one.after_share for one in diff.changes) == pytest.approx(1)


def test_html_is_balanced_and_escaped(real_profile):
    before = with_rows(real_profile, (EVIL, "forward", EVIL, 1.0, 1))
    after = with_rows(real_profile, ("mm", "forward", EVIL, 3.0, 1))
    html = before.diff(after)._repr_mimebundle_()["text/html"]
    assert Tags(html).seen <= {"div", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
    assert "<img" not in html
    assert "&lt;img" in html


def test_the_figure_has_both_sides_of_what_changed_most(real_profile):
    before = with_rows(real_profile, ("mm", "forward", "fc", 4.0, 2), ("<b>", "backward", "", 1.0, 1))
    after = with_rows(real_profile, ("mm", "forward", "fc", 2.0, 2))
    new, old = before.diff(after).figure().data
    assert (list(old.x), list(new.x)) == ([1.0, 4.0], [0.0, 2.0])  # the greatest difference on top
    assert new.marker.pattern.shape == "/"
    assert "<b>" not in "".join(new.y)


def test_what_is_no_profile_is_refused_in_plain_words(eager):
    with pytest.raises(AccelError, match="compares with another profile, and was given int"):
        eager.diff(3)


def test_a_trace_that_names_no_modules_has_no_operations_gone_and_come_for_that(eager, tmp_path):
    as_trace = accel.open_trace(eager.to_chrome_trace(tmp_path / "step.json.gz"))
    assert changes(eager.diff(as_trace), "vanished") == set()
    rows = tuple(replace(row, module="", phase=WITH_LOSS.get(row.phase, row.phase)) for row in as_trace.rows)
    foreign = replace(as_trace, rows=rows)
    diff = eager.diff(foreign)
    assert {change.module for change in diff.changes} == {""}
    assert changes(diff, "vanished") == changes(diff, "appeared") == set()
    assert any("do not name modules alike" in note for note in diff.notes)
    assert not any("from another machine" in note for note in diff.notes)
