"""Large elementwise operations in a row are found; short ones, single ones and compiled ones are not."""

from __future__ import annotations

from functools import cache

import pytest

from accel.diagnosis import Evidence
from accel.diagnosis.memory_bound_elementwise import WITH_FUNCTIONS, memory_bound_elementwise, read_chains
from tests.diagnosis.making import real
from tests.threads import threads

CHAIN = """
class Gelu(nn.Module):
    def forward(self, h):
        return h * 0.5 * (1 + torch.tanh(0.79788 * (h + 0.044715 * h * h * h)))
model = nn.Sequential(nn.Linear(64, 1024), Gelu(), nn.Linear(1024, 4))
x, y = torch.randn(256, 64), torch.randint(0, 4, (256,))
optimizer = torch.optim.SGD(model.parameters())
"""
LINKS = {"aten::mul", "aten::add", "aten::tanh", "aten::tanh_backward"}
RELU = CHAIN.replace("Gelu()", "nn.ReLU()")


@cache
def faulty():
    with threads(1):
        return real(setup=CHAIN)


@cache
def sound():
    return real(setup=RELU)


def test_a_chain_written_out_by_hand_is_found_whole():
    evidence = faulty()
    finding = memory_bound_elementwise(evidence)
    assert finding.details["chain_length"] > 5
    links = evidence.rows(lambda row: row.op in LINKS and row.phase in ("forward", "backward"))
    of_links = sum(row.self_ms for row in links) / evidence.traced_step_ms
    assert 0.7 * of_links < finding.share < 1, (
        "a part of it is missing"
    )  # other programs may stretch it in a step
    assert finding.suggests == ("compile_model",)


def test_compiling_may_be_a_loss_and_the_interval_says_so():
    prediction = memory_bound_elementwise(faulty()).prediction
    assert prediction.low < 1 < prediction.ratio <= prediction.high


def test_one_activation_between_two_products_is_no_chain():
    assert read_chains(sound().profile.events).count == 0


def test_short_operations_are_no_fault_of_the_memory(monkeypatch):
    monkeypatch.setitem(read_chains.__globals__, "LARGE_US", 1e9)
    assert memory_bound_elementwise(faulty()) is None


def test_views_between_operations_do_not_end_a_chain():
    seen = CHAIN.replace("h * 0.5 *", "(h * 0.5).view_as(h).detach().t().t() *").replace("h * h * h", "h")
    assert memory_bound_elementwise(real(setup=seen)) is not None


def test_what_is_compiled_already_is_not_found():
    evidence = faulty()
    kept = Evidence(evidence.profile, evidence.workload, evidence.machine, ("compile_model",))
    assert memory_bound_elementwise(kept) is None


def test_a_profile_without_a_trace_has_no_chains():
    assert read_chains(None) is None


def test_the_chains_time_is_less_than_the_step():
    assert 0 < memory_bound_elementwise(faulty()).share < 1


def test_a_chain_with_functions_is_expected_to_gain_what_such_chains_were_seen_to():
    assert "tanh" in read_chains(faulty().profile.events).names
    finding = memory_bound_elementwise(faulty())
    left = 1 - finding.share + finding.share / WITH_FUNCTIONS
    assert finding.prediction.ratio == pytest.approx(1 / left)


def test_with_convolutions_on_a_cpu_a_loss_is_inside_the_interval():
    layers = "nn.Unflatten(1, (1, 32, 32)), nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(3600, 4))"
    finding = memory_bound_elementwise(real(setup=CHAIN.replace("nn.Linear(1024, 4))", layers)))
    assert finding.prediction.low < memory_bound_elementwise(faulty()).prediction.low
