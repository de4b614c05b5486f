"""The catalogue's `ddp` in plain PyTorch: run on ranks, as a script for torchrun would be."""

from __future__ import annotations

import pytest
import torch

from accel.accelerations.ddp import Ddp
from accel.distributed.data_parallel.lineages import Lineages
from accel.distributed.trials.trial_rank import checksum
from accel.workload.generators import generator_states, restore_generators
from accel.workload.replica import Replica
from accel.workload.workload import Role, Workload
from tests.distributed.cells import EARLIER, TRAIN, notebook


def code_of(entry: Ddp) -> str:
    namespace = notebook()
    kinds = {"model": "models", "loader": "loaders"}
    roles = tuple(Role(kind, name, False, lambda: None) for name, kind in kinds.items())
    workload = Workload(
        cell=TRAIN, source=TRAIN, filename="<cell>", namespace=namespace, reads=tuple(kinds), writes=(), roles=roles,
        boundary="optimizer", accumulation=1, steps=3, step_ms=1.0, samples_per_step=16,
    )  # fmt: skip
    assert set(workload.objects().models) == {"model"}
    return entry.as_code(workload)


@pytest.mark.parametrize(("batch", "samples"), [("per-rank", 16), ("global", 8)])
def test_the_plain_code_shares_the_samples_out_and_ends_with_equal_parameters(pool, batch, samples):
    code = code_of(Ddp(batch=batch))
    assert "accel" not in code

    def script() -> tuple[list[int], int, list[int]]:
        from accel.distributed.trials.trial_rank import checksum

        cell: dict = {"__name__": "script"}
        exec(EARLIER, cell)
        exec(code, cell)
        first = next(iter(cell["loader"]))
        exec(TRAIN, cell)
        return checksum(list(cell["model"].parameters())), len(first[0]), list(cell["loader"].sampler)

    (one, size, of_one), (other, _, of_other) = pool.run(script)
    assert one == other
    assert one != checksum(list(notebook()["model"].parameters()))  # it has trained
    assert size == samples
    assert not set(of_one) & set(of_other)
    assert set(of_one) | set(of_other) == set(range(50))


def test_equal_tensors_have_equal_checksums_whatever_their_layout():
    images = torch.randn(2, 3, 4, 4)
    assert checksum([images]) == checksum([images.contiguous(memory_format=torch.channels_last)])
    assert checksum([images]) != checksum([images.reshape(3, 2, 4, 4)])
    assert checksum([torch.tensor(1.0), torch.ones(2, dtype=torch.bfloat16)]) != checksum([])
    assert all(-(2**63) <= part < 2**63 for part in checksum([images]))


def test_of_a_cell_that_builds_its_model_the_last_run_s_is_trained_and_no_other_kept(pool):
    def trained() -> tuple[list[int], list[bool], list[int]]:
        import gc
        import weakref

        import torch.distributed as dist

        from accel.distributed.cells.run_options import RunOptions
        from accel.distributed.data_parallel.data_parallel import DataParallel
        from accel.distributed.ranks.rank_page import RankPage
        from accel.distributed.trials.trial_rank import checksum

        cell: dict = {"__name__": "script"}
        exec(EARLIER, cell)
        build = "model = nn.Sequential(nn.Linear(6, 3)).double()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        models, counts = [], []
        page, rank = RankPage(2), dist.get_rank()
        options = RunOptions()
        with DataParallel(page, rank=rank, world_size=2, namespace=cell, options=options) as parallel:
            for _ in range(3):
                parallel.run_begins()
                exec(build + TRAIN, cell)
                models.append(weakref.ref(cell["model"]))
                counts.append(len(parallel.parameters))
            gc.collect()
            alive = [each() is not None for each in models]
            told = checksum(parallel.parameters)
        page.close()
        return counts, alive, told

    one, other = pool.run(trained)
    assert one == other
    assert one[:2] == ([2, 2, 2], [False, False, True])


def test_of_a_cell_that_builds_its_loader_no_earlier_one_is_kept_and_counting_its_steps_shares_nothing_out(
    pool,
):
    def trained() -> tuple[list[bool], list[int], bool, int]:
        import gc
        import weakref

        import torch.distributed as dist

        from accel.distributed.cells.run_options import RunOptions
        from accel.distributed.data_parallel.data_parallel import DataParallel
        from accel.distributed.ranks.rank_page import RankPage

        cell: dict = {"__name__": "script"}
        exec(EARLIER, cell)
        build = "loader = DataLoader(TensorDataset(x.clone(), y), batch_size=16, shuffle=True)\n"
        sets, counts = [], []
        page = RankPage(2)
        with DataParallel(
            page, rank=dist.get_rank(), world_size=2, namespace=cell, options=RunOptions()
        ) as it:
            for _ in range(4):
                it.run_begins()
                exec(build, cell)
                plain = cell["loader"].batch_sampler
                counts.append(len(cell["loader"]))
                is_plain = cell["loader"].batch_sampler is plain
                exec(TRAIN, cell)
                sets.append(weakref.ref(cell["loader"].dataset))
            gc.collect()
            alive, steps = [each() is not None for each in sets], it.steps
        page.close()
        return alive, counts, is_plain, steps

    for alive, counts, is_plain, steps in pool.run(trained):
        assert alive[:2] == [
            False,
            False,
        ]  # the last run's is the cell's own, and the one before is let go as the next begins
        assert counts == [2] * 4
        assert is_plain
        assert steps == 2 * 4 * 2


def test_what_an_evaluation_draws_alike_is_drawn_again_by_training():
    lineages = Lineages(rank=1)
    own = generator_states()
    lineages.part_ways()
    with lineages.put_back(), lineages.seeded_alike(), lineages.shared():
        drawn = torch.rand(3)
    with lineages.shared():
        assert torch.equal(torch.rand(3), drawn)
    restore_generators(own)


def test_the_plain_code_for_gpus_gives_each_rank_its_own(monkeypatch):
    monkeypatch.setattr(Replica, "device_type", "cuda")
    code = code_of(Ddp())
    assert code.index("set_device") < code.index('DistributedDataParallel(model.to("cuda"))')
    compile(code, "train.py", "exec")
