"""Training that distributes itself ends on ranks with torchrun's parameters, bit for bit; and what cannot be right is refused."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError
from tests.distributed.cells import TRAIN, notebook, on_ranks
from tests.distributed.launched.under_torchrun import parameters_of
from tests.distributed.launched.ways import CELLS, SCRIPTS

ROOT = Path(__file__).parents[2]
NAMES = [
    *SCRIPTS,
    *(name for name, (_, needs) in CELLS.items() if not needs or importlib.util.find_spec(needs)),
]


@pytest.fixture(scope="module")
def torchruns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[torch.Tensor]]:
    """What torchrun made of each, in one start."""
    file = tmp_path_factory.mktemp("torchrun") / "trained.pt"
    command = "-m torch.distributed.run --standalone --nproc-per-node 2 -m tests.distributed.launched.under_torchrun"
    subprocess.run(
        [sys.executable, *command.split(), str(file), *NAMES],
        check=True, timeout=300, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    trained: dict[str, list[torch.Tensor]] = torch.load(file)
    return trained


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_with_the_parameters_of_torchrun_bit_for_bit(
    pool: RankPool, torchruns: Any, name: str
) -> None:
    if name in CELLS:
        namespace, result = on_ranks(pool, CELLS[name][0], batch="per-rank")
        untrained = parameters_of(notebook())
        assert not torch.equal(parameters_of(namespace)[0], untrained[0])
    else:
        namespace, result = on_ranks(pool, SCRIPTS[name], earlier="", batch="per-rank")
    assert all(
        torch.equal(one, other) for one, other in zip(parameters_of(namespace), torchruns[name], strict=True)
    )
    assert result.distributes_itself
    if name in SCRIPTS:
        assert result.left_behind == ()
    if name == "a sampler and DDP":
        assert type(namespace["net"]) is type(namespace["model"])
        assert any(note.startswith("net: brought back as the model inside") for note in result.notes)


SAMPLER = """
from torch.utils.data.distributed import DistributedSampler
loader = DataLoader(TensorDataset(x, y), batch_size=8, sampler=DistributedSampler(TensorDataset(x, y)))
"""
OF_ONE_RANK = SAMPLER.replace("(x, y)))", "(x, y), num_replicas=2, rank=0))")
SUMS = TRAIN.replace(
    "        optimizer.step()", "        dist.all_reduce(model[0].weight.grad)\n        optimizer.step()"
)
DIST = "import torch.distributed as dist\n"


def test_a_sampler_that_shares_out_is_left_alone_and_the_rest_is_as_ever(
    pool: RankPool, torchruns: Any
) -> None:
    namespace, result = on_ranks(pool, SAMPLER + TRAIN, batch="per-rank")
    assert all(
        torch.equal(one, other)
        for one, other in zip(parameters_of(namespace), torchruns["a sampler and DDP"], strict=True)
    )
    assert [each.lane.samples for each in result.ranks] == [50, 50]
    assert not result.distributes_itself


ELASTIC = """
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_endpoint="localhost:0", run_id="one")
elastic_launch(config, print)()
"""


def test_a_library_that_launches_ranks_is_refused_at_once_by_name(pool: RankPool) -> None:
    pytest.importorskip("lightning")
    cell = (
        "import lightning\nlightning.Fabric(accelerator='cpu', devices=2, strategy='ddp_spawn').launch(print)"
    )
    with pytest.raises(AccelError, match="lightning launches ranks"):
        on_ranks(pool, cell)


@pytest.mark.parametrize(
    ("cell", "more", "options", "says"),
    [
        (TRAIN, OF_ONE_RANK, {}, "its DistributedSampler gives part 0 of 2, and this is rank 1"),
        (SAMPLER + TRAIN, "", {"batch": "global"}, "loader is shared out already, by its DistributedSampler"),
        (DIST + "dist.init_process_group()\n" + TRAIN, "", {"batch": "global"}, "the cell distributes its training itself"),
        (DIST + "dist.init_process_group()\n" + TRAIN, "", {"compress": "bf16"}, "--compress bf16: the cell distributes"),
        (DIST + SUMS, "", {}, "the ranks average gradients after each backward pass already"),
        (DIST + "x = x[dist.get_rank() :: 2]\ny = y[dist.get_rank() :: 2]\nloader = DataLoader(TensorDataset(x, y))\n" + TRAIN,
         "", {}, "its data differ from rank to rank"),
        (DIST + "dist.init_process_group(world_size=4, rank=0)", "", {}, "Use -n 4, or leave world_size out"),
        ("import torch.multiprocessing as mp\nmp.spawn(print, nprocs=4)", "", {}, "Use -n 4, or nprocs=2"),
        ("import torch.multiprocessing as mp\nmp.start_processes(print, nprocs=4)", "", {}, "Use -n 4, or nprocs=2"),
        (ELASTIC, "", {}, "has already launched the ranks"),
        (DIST + "from torch.distributed.fsdp import fully_shard\nfully_shard(model)\n" + TRAIN, "", {}, "--plan fully_shard"),
    ],
)  # fmt: skip
def test_what_would_be_shared_out_or_averaged_twice_is_refused_by_name(
    pool: RankPool, cell: str, more: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(AccelError) as refused:
        on_ranks(pool, cell, more, **{"batch": "per-rank", **options})
    assert says in str(refused.value)


def test_a_cell_that_knows_its_rank_and_has_all_the_data_trains_as_any_other(pool: RankPool) -> None:
    plain, _ = on_ranks(pool, TRAIN, batch="per-rank")
    knowing, result = on_ranks(
        pool, DIST + "if dist.get_rank() == 0:\n    print('first')\n" + TRAIN + "dist.destroy_process_group()\n",
        batch="per-rank",
    )  # fmt: skip
    assert all(torch.equal(a, b) for a, b in zip(parameters_of(plain), parameters_of(knowing), strict=True))
    assert not result.distributes_itself


def test_a_guard_that_is_never_reached_leaves_a_run_as_any_other(pool: RankPool) -> None:
    guarded = "if len(x) < 0 and not dist.is_initialized():\n    dist.init_process_group('nccl')\n"
    plain, _ = on_ranks(pool, TRAIN)
    found, result = on_ranks(pool, DIST + guarded + TRAIN)
    assert all(torch.equal(a, b) for a, b in zip(parameters_of(plain), parameters_of(found), strict=True))
    assert not result.distributes_itself


@pytest.mark.parametrize("data", [
    "class Stream(torch.utils.data.IterableDataset):\n"
    "    def __len__(self): return len(x)\n"
    "    def __iter__(self): return iter(list(zip(x, y)))\n"
    "loader = DataLoader(Stream(), batch_size=8)\n",
    "names = list('abcdefghijklmnopqrstuvwx')\n"
    "loader = DataLoader(dict(zip(names, zip(x, y))), sampler=names, batch_size=8)\n",
], ids=["a stream with a length", "keys that are no numbers"])  # fmt: skip
def test_data_that_are_not_read_by_numbers_are_trained_on_by_a_cell_that_knows_ranks(
    pool: RankPool, data: str
) -> None:
    _, result = on_ranks(pool, DIST + TRAIN, data, batch="per-rank")
    assert result.steps


AUGMENTED = """
import random
class Augmented(Dataset):
    def __len__(self):
        return len(x)
    def __getitem__(self, at):
        return x[at] + {noise}, y[at]
loader = DataLoader(Augmented(), batch_size=8)
"""
NOISE = {
    "torch's numbers": "0.1 * torch.randn(6, dtype=torch.float64)",
    "Python's numbers": "0.1 * random.random()",
    "numbers from the system": "0.1 * random.SystemRandom().random()",
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_random_augmentation_is_no_difference_between_ranks_and_a_part_of_augmented_data_is(
    pool: RankPool, noise: str
) -> None:
    knows, more = DIST + "dist.get_rank()\n", AUGMENTED.format(noise=noise)
    _, result = on_ranks(pool, knows + TRAIN, more, batch="per-rank")
    assert result.steps
    part = "y = (y + dist.get_rank()) % 3\n"
    with pytest.raises(AccelError, match="its data differ from rank to rank"):
        on_ranks(pool, knows + part + TRAIN, more, batch="per-rank")


def test_what_a_script_asks_for_and_cannot_have_is_said(pool: RankPool) -> None:
    _, result = on_ranks(pool, SCRIPTS["chapter_10"], earlier="", batch="per-rank")
    whole = DIST + "dist.init_process_group()\n" + TRAIN
    _, unsplit = on_ranks(pool, whole, batch="per-rank")
    if not torch.cuda.is_available():
        assert sum("asks for nccl" in note and "gloo" in note for note in result.notes) == 1
    assert any("No DistributedSampler shares loader out" in note for note in unsplit.notes)
    lanes = [line for line in str(result).splitlines() if line.strip().startswith("rank ")]
    assert (len(lanes), [line for line in lanes if "%" in line]) == (2, [])  # an unknown share is not 0 %


def test_a_function_joins_and_leaves_as_a_script_does_again_and_again(pool: RankPool) -> None:
    def main() -> tuple[int, str, str, str]:
        import torch.distributed as dist

        dist.init_process_group("gloo")
        total = torch.ones(1)
        dist.all_reduce(total)
        dist.destroy_process_group()
        assert not dist.is_initialized()
        told = os.environ
        return int(total), told["RANK"], told["WORLD_SIZE"], told["MASTER_PORT"]

    first, second = pool.run(main), pool.run(main)
    for ranks in (first, second):
        assert [each[:3] for each in ranks] == [(2, "0", "2"), (2, "1", "2")]
        assert len({each[3] for each in ranks}) == 1
