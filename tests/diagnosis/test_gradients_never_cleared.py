"""Training that never clears its gradients is found; every way to clear them is seen, also by hand and for two optimizers."""

from __future__ import annotations

from functools import cache

import pytest

from accel.diagnosis.gradients_never_cleared import gradients_never_cleared
from tests.diagnosis.making import real

LOOP = """
for _ in range(6):
    {before}
    criterion(model(x), y).backward()
    {between}
    optimizer.step()
"""
ACCUMULATED = """
for step in range(8):
    criterion(model(x), y).backward()
    if step % 2:
        optimizer.step()
        {clear}
"""
GAN = """
generator, critic = nn.Linear(16, 16), nn.Linear(16, 1)
of_critic = torch.optim.SGD(critic.parameters(), 0.01)
of_generator = torch.optim.SGD(generator.parameters(), 0.01)
for _ in range(6):
    {clear_critic}
    critic(generator(x).detach()).mean().backward()
    of_critic.step()
    of_generator.zero_grad()
    critic(generator(x)).mean().backward()
    of_generator.step()
"""
CLOSURE = """
quasi = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    quasi.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    return loss
for _ in range(4):
    quasi.step(closure)
"""
WATCHED = """
from torch.utils._python_dispatch import TorchDispatchMode
ran = []
class Ops(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        ran.append(str(op))
        return op(*args, **(kwargs or {{}}))
with Ops():
    for _ in range(6):
        for _ in range({micro_batches}):
            criterion(model(x), y).backward()
        optimizer.step()
        {clear}
"""


@cache
def faulty():
    return real(LOOP.format(before="pass", between="pass"), timed=False)


@cache
def sound():
    return real(LOOP.format(before="optimizer.zero_grad()", between="pass"), timed=False)


def finds(cell):
    finding = gradients_never_cleared(real(cell, timed=False))
    return finding is not None and finding.kind == "gradients_never_cleared"


@pytest.mark.parametrize(
    "between",
    ["pass", "norm = model[0].weight.grad.norm()", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"],
)
def test_a_loop_that_never_clears_is_found(between):
    assert finds(LOOP.format(before="pass", between=between))


@pytest.mark.parametrize(
    "before",
    [
        "optimizer.zero_grad()",
        "optimizer.zero_grad(set_to_none=False)",
        "model.zero_grad()",
        "for p in model.parameters(): p.grad = None",
        "for p in model.parameters(): p.grad is None or p.grad.zero_()",
        "for p in model.parameters(): p.grad is None or p.grad.data.zero_()",
        "model[0].weight.grad is None or torch._foreach_zero_([p.grad for p in model.parameters()])",
    ],
)
def test_each_way_to_clear_them_is_seen(before):
    assert not finds(LOOP.format(before=before, between="pass"))


def test_gradients_that_the_notebook_puts_there_itself_are_not_said_to_add_up():
    assert not finds(
        LOOP.format(before="pass", between="for p in model.parameters(): p.grad = p.grad.clone()")
    )


@pytest.mark.parametrize(("clear", "is_found"), [("optimizer.zero_grad()", False), ("pass", True)])
def test_accumulation_counts_updates(clear, is_found):
    assert finds(ACCUMULATED.format(clear=clear)) is is_found


BY_HAND = "[p.grad.data.zero_() for p in critic.parameters() if p.grad is not None]"


@pytest.mark.parametrize(
    ("clear", "is_found"), [("of_critic.zero_grad()", False), (BY_HAND, False), ("pass", True)]
)
def test_the_first_of_two_optimizers_is_watched(clear, is_found):
    assert finds(GAN.format(clear_critic=clear)) is is_found


@pytest.mark.parametrize("setup", ["", "criterion(model(x), y).backward()"], ids=["first run", "second run"])
@pytest.mark.parametrize("clears", [True, False])
def test_closures_are_watched(clears, setup):
    cell = CLOSURE if clears else CLOSURE.replace("    quasi.zero_grad()\n", "")
    assert (gradients_never_cleared(real(cell, setup, timed=False)) is not None) is not clears


def test_an_optimizer_that_clears_in_its_own_step_is_seen():
    hook = "optimizer.register_step_post_hook(lambda of, *_: of.zero_grad())\n"
    assert not finds(hook + LOOP.format(before="pass", between="pass"))


def test_gradients_that_no_backward_adds_to_are_not_said_to_add_up():
    copied = "for p in model.parameters(): p.grad = torch.zeros_like(p)\n" + LOOP.format(
        before="pass", between="pass"
    ).replace(
        "criterion(model(x), y).backward()",
        "for p, g in zip(model.parameters(), torch.autograd.grad(criterion(model(x), y), list(model.parameters()))):\n"
        "        p.grad.copy_(g)",
    )
    assert not finds(copied)


def test_one_update_shows_nothing():
    assert not finds("criterion(model(x), y).backward()\noptimizer.step()")


@pytest.mark.parametrize(
    ("clear", "is_found"),
    [
        ("pass", True),
        ("optimizer.zero_grad()", False),
        ("for p in model.parameters(): p.grad.data.zero_()", False),
    ],
)
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_the_watch_looks_at_values_a_few_times_and_waits_for_none_while_the_cell_runs(
    clear, is_found, micro_batches
):
    plain = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"  # Adam reads values itself
    evidence = real(WATCHED.format(micro_batches=micro_batches, clear=clear), plain, timed=False)
    ran = evidence.workload.namespace["ran"]
    assert ran.count("aten.mm.default") >= 6 * micro_batches
    assert ran.count("aten.any.default") <= 3 * micro_batches
    assert "aten._local_scalar_dense.default" not in ran
    assert (gradients_never_cleared(evidence) is not None) is is_found
