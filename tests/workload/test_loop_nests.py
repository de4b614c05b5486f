"""Whatever the nest of loops: steps, batches and samples of a step, and what lies in it, are as they are known to be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from capturing import capture, notebook
from hypothesis import HealthCheck, given, settings
from loop_nests import NESTS, Nest

from accel.workload import Recording


def recorded(nest: Nest) -> Recording:
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(nest.setup, namespace)
    return capture(nest.cell, namespace)[1]


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(NESTS)
def test_steps_of_any_nest_of_loops_are_those_that_its_author_would_count(nest: Nest) -> None:
    recording = recorded(nest)
    steps = recording.steps
    assert len(steps.steps) == len(nest.sizes)
    assert steps.accumulation == nest.batches
    assert [step.samples for step in steps.steps] == [sum(sizes) for sizes in nest.sizes]
    for step in steps.steps:
        assert sum(step.phases_ns.values()) == step.duration_ns
    check_what_lies_in_steps(nest, recording)


def check_what_lies_in_steps(nest: Nest, recording: Recording) -> None:
    """Phases, calls of the model, passes and updates are in the steps that need them; validation is in none."""
    spans = recording.steps.boundaries_ns
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert recording.steps.rule == ("loop over data" if nest.has_loop_over_data else "optimizer step")
    calls = [call for call in recording.forward_calls if call.model == recording.forward_calls[0].model]
    training = [call.begin_ns for call in calls if call.line != nest.validation_line]
    validating = [call.begin_ns for call in calls if call.line == nest.validation_line]
    held = [sum(begin <= time < end for time in training) for begin, end in spans]
    if not nest.has_loop_over_data:  # from end to end: also what was left over in an epoch, and validation
        assert all(count >= nest.calls for count in held)
        return
    assert held == [nest.calls] * len(spans)
    assert not any(begin <= time < end for time in validating for begin, end in spans)
    phases = {"data", "forward", "loss", "backward", "optimizer", "zero_grad"}
    if (
        nest.only_fetches_are_seen
    ):  # what comes before the first fetch of a loop, or after its last step, may be in none
        phases.remove("zero_grad")
    for step in recording.steps.steps:
        assert phases <= set(step.phases_ns)


TRAIN = "criterion(model({x}), {y}).backward(); optimizer.step(); optimizer.zero_grad()\n"
OTHERS = {
    "one batch that is shorter than it could be": (
        f"for epoch in range(3):\n    for x, y in large: {TRAIN.format(x='x', y='y')}",
        "large = DataLoader(TensorDataset(X, Y), batch_size=256)", 3, 1, [24] * 3,
    ),
    "a model and an optimizer for each fold": (
        """
for fold in range(3):
    m = nn.Linear(8, 3)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    for x, y in loader:
        o.zero_grad(); criterion(m(x), y).backward(); o.step()
""", "", 18, 1, [4] * 18,
    ),
    "a trainer that draws the batches of a step ahead": (
        "train()",
        """
def drawn(batches, count):
    return [batch for _, batch in zip(range(count), batches)]
def train():
    for epoch in range(2):
        batches = iter(loader)
        while got := drawn(batches, 3):
            for x, y in got:
                criterion(model(x), y).backward()
            optimizer.step(); optimizer.zero_grad()
""", 4, 3, [12] * 4,
    ),
    "a probe with an optimizer of its own after each epoch": (
        """
for epoch in range(3):
    for x, y in loader:
        """ + TRAIN.format(x="x", y="y") + """
    probe()
""", """
def probe():
    head = nn.Linear(8, 3)
    o = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(5): o.zero_grad(); criterion(head(X), Y).backward(); o.step()
""", 18, 1, [4] * 18,
    ),
    "folds, with a probe after each epoch": (
        """
for fold in range(2):
    m = nn.Linear(8, 3)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            o.zero_grad(); criterion(m(x), y).backward(); o.step()
        head = nn.Linear(8, 3)
        p = torch.optim.SGD(head.parameters(), lr=0.1)
        for i in range(3): p.zero_grad(); criterion(head(X), Y).backward(); p.step()
""", "", 24, 1, [4] * 24,
    ),
    "several steps along one sequence": (
        """
for x, y in loader:
    h = 0
    for t in range(6):
        h = h + model(x)
        if t % 2 == 1:
            criterion(h, y).backward(); optimizer.step(); optimizer.zero_grad(); h = h.detach()
""", "", 18, 1, [4] * 18,
    ),
    "an episode, then one backward": (
        """
for episode in range(3):
    logs = []
    for t in range(10):
        logs.append(model(X[t:t + 1]).log_softmax(1)[0, 0])
    optimizer.zero_grad(); (-torch.stack(logs).sum()).backward(); optimizer.step()
""", "", 3, 1, [1] * 3,
    ),
    "rollouts, then epochs over what they gave": (
        """
for iteration in range(2):
    with torch.no_grad():
        for t in range(10): model(X[t:t + 1])
    for epoch in range(2):
        for i in range(0, 12, 4):
            """ + TRAIN.format(x="X[i:i + 4]", y="Y[i:i + 4]"), "", 12, 1, [4] * 12,
    ),
    "gradients of gradients over tasks": (
        """
for iteration in range(3):
    total = 0
    for task in range(4):
        loss = criterion(model(X[:4]), Y[:4])
        torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        total = total + loss
    total.backward(); optimizer.step(); optimizer.zero_grad()
""", "", 3, 1, [4] * 3,
    ),
    "one loop after the other": (
        "for x, y in loader: " + TRAIN.format(x="x", y="y") + "for i in range(4): " + TRAIN.format(x="X", y="Y"),
        "", 10, 1, [4] * 6 + [24] * 4,
    ),
    "samples one by one": (
        "for x, y in zip(X, Y): " + TRAIN.format(x="x[None]", y="y[None]"), "", 24, 1, [1] * 24,
    ),
    "a row of rates a round": (
        "for rates in torch.tensor([[0.1, 0.2], [0.2, 0.3]]):\n  for epoch in range(2): " + TRAIN.format(x="X", y="Y"),
        "", 4, 1, [24] * 4,
    ),
    "batches that are skipped": (
        "for i, (x, y) in enumerate(loader):\n    if i % 3: continue\n    " + TRAIN.format(x="x", y="y"),
        "", 2, 1, [4] * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cell", "setup", "steps", "batches", "samples"), OTHERS.values(), ids=OTHERS)
def test_steps_of_loops_that_look_otherwise(cell, setup, steps, batches, samples) -> None:
    workload, recording = capture(cell, notebook(setup))
    found = recording.steps
    assert (workload.steps, len(found.steps), found.accumulation) == (steps, steps, batches)
    assert [step.samples for step in found.steps] == samples
    assert all({"forward", "backward", "optimizer"} <= set(step.phases_ns) for step in found.steps)


def test_a_model_that_is_called_in_an_inner_loop_is_in_the_time_of_its_step() -> None:
    cell = "for x, y in loader:\n    out = 0\n    for t in range(5): out = out + model(x)\n" + (
        "    criterion(out, y).backward(); optimizer.step(); optimizer.zero_grad()\n"
    )
    _, recording = capture(cell, notebook())
    spans = recording.steps.boundaries_ns
    for call in recording.forward_calls:
        assert any(begin <= call.begin_ns and call.end_ns <= end for begin, end in spans)
