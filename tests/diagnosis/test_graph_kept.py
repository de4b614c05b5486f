"""Values that keep the graphs of earlier steps are found wherever they lie; what a step needs itself is not."""

from __future__ import annotations

from functools import cache

import pytest

from accel.diagnosis.graph_kept import graph_kept
from tests.diagnosis.making import real

LOOP = """
from collections import deque
{before}
for _ in range(12):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    {each}
"""
PER_EPOCH = """
for _ in range(2):
    running = 0.0
    for _ in range(6):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss
"""
EPISODE = """
for _ in range(4):
    losses = [criterion(model(x), y) for _ in range(6)]
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()
    optimizer.step()
"""
MICRO_BATCHES = """
total = 0.0
for _ in range(8):
    loss = criterion(model(x), y)
    loss.backward()
    total = total + loss
optimizer.step()
"""
OBJECT = "class Meter:\n    pass\nmeter = Meter()\nmeter.values = []"
OTHER_LIST = """
class Other({base}):
    def __iter__(self): raise LookupError("no items")
    __reversed__ = __getitem__ = __iter__
losses = Other()
"""
BUFFER = "model.register_buffer('mean', torch.zeros(()))"


@cache
def faulty():
    return real(LOOP.format(before="losses = []", each="losses.append(loss)"), timed=False)


@cache
def sound():
    return real(LOOP.format(before="losses = []", each="losses.append(loss.item())"), timed=False)


def found(before, each):
    return graph_kept(real(LOOP.format(before=before, each=each), timed=False))


@pytest.mark.parametrize(
    ("before", "each", "name"),
    [
        ("losses = []", "losses.append(loss)", "losses"),
        ("total = 0.0", "total = total + loss", "total"),
        ("total = 0.0", "total += 2 * loss / len(x)", "total"),
        ("average = 0.0", "average = 0.9 * average + 0.1 * loss", "average"),
        ("history = {'train': []}", "history['train'].append(loss)", "history['train']"),
        (OBJECT, "meter.values.append((loss, len(x)))", "meter.values"),
        ("last = deque(maxlen=8)", "last.append(loss.clone())", "last"),
        ("outputs = []", "outputs.append(model(x))", "outputs"),
        (BUFFER, "model.mean = 0.9 * model.mean + 0.1 * loss", "model._buffers"),
        ("by_step = {-step: 0.0 for step in range(1, 189)}", "by_step[len(by_step)] = loss", "by_step"),
        (
            "by_name = {str(i): {} for i in range(200)}\nby_name['losses'] = []",
            "by_name['losses'].append(loss)",
            "by_name['losses']",
        ),
        ("losses = set()", "losses.add(loss)", "losses"),
        ("class Log(list): pass\nlog = Log(); log.kept = []", "log.kept.append(loss)", "log.kept"),
        ("losses = frozenset()", "losses |= {loss}", "losses"),
        (OTHER_LIST.format(base="list"), "losses.append(loss)", "losses"),
        (OTHER_LIST.format(base="deque"), "losses.append(loss)", "losses"),
        ("all_losses = torch.zeros(0)", "all_losses = torch.cat([all_losses, loss[None]])", "all_losses"),
    ],
)
def test_a_value_that_keeps_the_graphs_of_steps_is_named(before, each, name):
    finding = found(before, each)
    assert (finding.kind, finding.title.split(" keeps ")[0]) == ("graph_kept", name)
    assert finding.details["steps"] >= 8
    assert name in finding.remedy


def test_a_sum_that_begins_anew_in_each_epoch_is_found():
    assert graph_kept(real(PER_EPOCH, timed=False)).title.startswith("running keeps the graphs of ")


@pytest.mark.parametrize(
    ("before", "each"),
    [
        ("losses = []", "losses.append(loss.item())"),
        ("losses = []", "losses.append(loss.detach())"),
        ("total = 0.0", "total += float(loss)"),
        ("last = None", "last = loss"),
        ("heads = []", "heads = [model(x).mean() for _ in range(8)]"),
    ],
)
def test_what_holds_no_graph_or_that_of_one_step_is_not(before, each):
    assert found(before, each) is None


def test_the_losses_of_one_episode_are_not():
    assert graph_kept(real(EPISODE, timed=False)) is None


def test_the_losses_of_the_micro_batches_of_one_update_are_not():
    assert graph_kept(real(MICRO_BATCHES, timed=False)) is None


def test_the_line_is_that_of_the_loop():
    evidence = real(LOOP.format(before="losses = []", each="losses.append(loss)"), timed=False)
    line = evidence.workload.source.splitlines().index("    losses.append(loss)") + 1
    assert graph_kept(evidence).line == line
