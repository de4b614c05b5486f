"""The model of all-reduces and steps: against formulas by hand, and against figures that it has not seen."""

from __future__ import annotations

import pytest

from accel.commands.what_if import INSIDE, NETWORKS
from accel.distributed.scaling.calibration import ScalingLaw, link_from_all_reduces
from accel.distributed.scaling.forecast import LINKS, Assumed, forecast
from accel.distributed.scaling.links import LinkModel, Machines
from accel.distributed.scaling.probe import SIZES_BYTES
from accel.distributed.scaling.steps import MEBIBYTE, StepWork, forecast_step
from accel.errors import AccelError, UnknownName
from accel.workbench.cluster_probe import probe_cluster
from accel.workbench.step_work import Wish, forecast_for
from tests.clusters.trainings import cell, opened, options

# Seconds of EfficientNet on CIFAR-10, 25 epochs, on so many A100 (the course's chapter 10), and on two machines (chapter 11).
COURSE = {1: 707, 2: 393, 3: 276, 4: 208, 5: 172, 6: 142, 7: 122, 8: 109}
TWO_MACHINES_S = 64
LINK = LinkModel(latency_s=10e-6, bytes_per_s=1e9)


def test_a_ring_and_a_tree_take_what_their_messages_take():
    assert LINK.ring_s(8e6, 4) == pytest.approx(2 * 3 * (10e-6 + 2e6 / 1e9))
    assert LINK.tree_s(8e6, 4) == pytest.approx(2 * 2 * 10e-6 + 2 * 8e6 / 1e9)
    assert LINK.ring_s(8e6, 1) == LINK.tree_s(8e6, 1) == 0


def test_small_messages_to_many_go_by_a_tree_and_large_ones_by_a_ring():
    assert LINK.all_reduce_s(1e3, 512) == LINK.tree_s(1e3, 512)
    assert LINK.all_reduce_s(1e9, 8) == LINK.ring_s(1e9, 8)


def test_on_one_machine_the_network_has_no_part():
    joined = Machines(8, inside=LINK, between=LinkModel(1.0, 1.0))
    assert joined.all_reduce_s(1e6, 8) == LINK.all_reduce_s(1e6, 8)
    assert joined.all_reduce_s(1e6, 16) > 1


def test_more_network_cards_carry_more():
    slow, fast = (Machines(8, LINK, LINK, rails=rails).all_reduce_s(100e6, 64) for rails in (1, 8))
    assert fast < slow


def test_buckets_hold_all_gradients_and_the_first_is_small():
    buckets = StepWork(0.1, 60 * MEBIBYTE).buckets
    assert sum(buckets) == 60 * MEBIBYTE
    assert buckets[0] == MEBIBYTE
    assert StepWork(0.1, 1000).buckets == (1000,)


def test_an_exchange_that_is_quicker_than_the_backward_pass_hides_but_for_its_last_bucket():
    work = StepWork(compute_s=0.3, gradient_bytes=101 * MEBIBYTE, backward_share=2 / 3)
    step = forecast_step(work, 8, lambda size: size / MEBIBYTE * 1e-4)
    assert step.exchange_s == pytest.approx(0.0101)
    assert step.exposed_s == pytest.approx(0.0025, rel=0.1)
    alone = forecast_step(work, 1, lambda size: 1.0)
    assert (alone.exposed_s, alone.step_s) == (0, pytest.approx(0.3))


def test_on_cpus_nothing_hides_an_exchange():
    work = StepWork(compute_s=0.3, gradient_bytes=101 * MEBIBYTE, hides=False)
    step = forecast_step(work, 8, lambda size: size / MEBIBYTE * 1e-4)
    assert step.exposed_s == step.exchange_s == pytest.approx(0.0101)


def test_an_exchange_that_is_slower_than_the_backward_pass_makes_the_step():
    work = StepWork(compute_s=0.03, gradient_bytes=101 * MEBIBYTE)
    step = forecast_step(work, 8, lambda size: size / MEBIBYTE * 1e-2)
    assert step.step_s == pytest.approx(0.01 + 1.01, rel=0.02)


def test_a_step_waits_for_the_slowest_of_ever_more_ranks():
    work = StepWork(0.1, 1e6, spread=0.1)
    assert work.slowest_s(1) == 0.1
    assert work.slowest_s(8) == pytest.approx(
        0.1 * 1.142, rel=0.01
    )  # the expected largest of 8 normal draws is 1.42
    assert work.slowest_s(1000) > work.slowest_s(8)


def test_a_link_is_found_again_from_what_rings_over_it_take():
    measured = [(size, 4, LINK.ring_s(size, 4)) for size in (1e3, 64e3, 1e6, 16e6)]
    found = link_from_all_reduces(measured)
    assert found.latency_s == pytest.approx(LINK.latency_s, rel=1e-6)
    assert found.bytes_per_s == pytest.approx(LINK.bytes_per_s, rel=1e-6)


def test_a_link_needs_two_sizes():
    with pytest.raises(AccelError, match="two sizes"):
        link_from_all_reduces([(1e6, 2, 1e-3), (1e6, 2, 2e-3)])


def test_fitted_to_two_and_four_gpus_the_law_gives_the_courses_eight():
    law = ScalingLaw.fitted({ranks: COURSE[ranks] for ranks in (1, 2, 4)})
    for ranks in (3, 5, 6, 7, 8):  # none of them was shown to it
        assert law.speed_up(ranks) == pytest.approx(COURSE[1] / COURSE[ranks], rel=0.04), ranks
    assert law.speed_up(8) == pytest.approx(6.5, abs=0.1)


def test_two_machines_lose_more_than_one_machine_of_twice_the_size_would():
    law = ScalingLaw.fitted(COURSE)
    as_one = law.speed_up(16) / law.speed_up(8)
    measured = COURSE[8] / TWO_MACHINES_S
    assert measured < as_one < 2
    assert measured == pytest.approx(1.70, abs=0.01)


def test_with_what_one_machine_took_the_courses_second_machine_is_foretold():
    """Chapter 11 does not tell its network; 25 Gb Ethernet explains it, and a faster one would have brought more."""
    work = StepWork(
        compute_s=707 / 25 / 782, gradient_bytes=4 * 5.3e6, spread=0.03
    )  # 782 batches of 64 an epoch
    law = ScalingLaw.fitted({ranks: COURSE[ranks] for ranks in (1, 2, 4)})
    slow, fast = (
        forecast(work, (1, 2), Assumed(8, "nvlink", network, law=law)).rows for network in ("25gb", "200gb")
    )
    assert slow[0].speed_up == pytest.approx(COURSE[1] / COURSE[8], rel=0.02)
    assert slow[1].low < COURSE[1] / TWO_MACHINES_S < slow[1].high
    assert slow[1].speed_up == pytest.approx(COURSE[1] / TWO_MACHINES_S, rel=0.05)
    assert fast[1].speed_up > slow[1].high


def test_a_law_needs_one_rank_and_two_other_numbers():
    with pytest.raises(AccelError, match="on one rank and on two other numbers"):
        ScalingLaw.fitted({1: 10, 2: 6})


def test_a_forecast_falls_off_and_its_interval_holds_it():
    work = StepWork(compute_s=0.05, gradient_bytes=100e6, spread=0.02)
    found = forecast(work, (1, 2, 8, 64, 512), Assumed(8, "nvlink", "100gb"))
    efficiencies = [row.efficiency for row in found.rows]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert all(row.low <= row.speed_up <= row.high for row in found.rows)
    assert "machines" in found.line


def test_a_forecast_of_nothing_known_and_of_no_link_says_so():
    with pytest.raises(AccelError, match="the time of a step is not known"):
        forecast(StepWork(0.0, 1e6), (1,), Assumed(1, "pcie", "10gb"))
    with pytest.raises(UnknownName, match="nvlink"):
        forecast(StepWork(0.1, 1e6), (1,), Assumed(1, "nvlnk", "10gb"))


def test_the_commands_links_are_those_that_there_are():
    assert {*NETWORKS, *INSIDE} == {*LINKS}


def test_what_if_takes_a_step_by_hand_and_says_what_is_missing():
    found = forecast_for(None, Wish("1,8", step_ms=100, gradient_mb=50))
    assert [row.machines for row in found.rows] == [1, 8]
    assert "8 ranks a machine are joined by nvlink" in str(found)
    with pytest.raises(AccelError, match="no profiled cell here"):
        forecast_for(None, Wish())
    with pytest.raises(AccelError, match="no number of ranks with its seconds"):
        forecast_for(None, Wish("1", step_ms=1, gradient_mb=1, measured="2=3"))
    with pytest.raises(AccelError, match="no amount above 0"):
        forecast_for(None, Wish("1", step_ms=-1, gradient_mb=1))


def test_a_cluster_is_seen_and_predicts_the_profiled_cell():
    with opened() as bench:
        bench.profile(cell(2))
        view = probe_cluster(bench, None, 2)
        assert view.ranks == 2
        assert [size for size, _ in view.all_reduce_s] == [*SIZES_BYTES]
        middle, low, high = view.speed_up(2)
        assert (
            0 < low <= middle <= high
        )  # how high, other work on the machine decides; the view says where it doubts
        told = str(view)
        assert "not run yet" in told or "slowed down by other work" in told
        bench.ranks.run(cell(2), options(None))
        assert dict(probe_cluster(bench, None, 2).measured)[2] > 0
    with pytest.raises(AccelError, match="there is no other rank to talk to"):
        probe_cluster(None, None, 1)
