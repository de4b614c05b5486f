"""The worked examples of model parallelism: what two ranks compute together is what one process computes."""

from __future__ import annotations

import pytest

from accel.labs.pipeline_parallel import bubble_share, pipeline_parallel
from accel.labs.sharded_training import sharded_training
from accel.labs.tensor_parallel import tensor_parallel


def test_a_layer_that_is_cut_in_two_gives_the_whole_ones_output_and_gradients(pool):
    found = pool.run(tensor_parallel, 16)
    for each in found:
        assert max(each.output_difference, each.gradient_difference) < 1e-12
        assert each.shapes == {"0.weight": (32, 16), "0.bias": (32,), "2.weight": (16, 32), "2.bias": (16,)}
        assert each.part_bytes == each.whole_bytes / 2 + 8 * 16 / 2  # every rank has the last bias
    assert [each.rank for each in found] == [0, 1]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_pipeline_of_two_stages_gives_the_whole_models_loss_and_gradients(pool, schedule):
    for each in pool.run(pipeline_parallel, 4, schedule, width=16, samples=8, steps=2):
        assert max(each.loss_difference, each.gradient_difference) < 1e-12
        assert each.part_bytes == each.whole_bytes / 2
        assert 0 < each.computing_ms < each.step_ms


def test_the_bubble_shrinks_with_micro_batches_and_is_all_but_one_stage_without_them():
    assert bubble_share(4, 1) == 3 / 4
    assert [bubble_share(2, m) for m in (1, 2, 4)] == [1 / 2, 1 / 3, 1 / 5]


def test_a_sharded_training_gives_the_weights_of_a_replicated_one_and_keeps_half(pool):
    for each in pool.run(sharded_training, 16, 2, 8, 3):
        assert each.weight_difference < 1e-12
        assert each.sharded_bytes == each.ddp_bytes / 2
        assert "bytes of the parameters" in each.proof
