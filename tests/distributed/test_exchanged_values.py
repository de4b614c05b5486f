"""What ranks say to each other is read as plain values, never unpickled."""

from __future__ import annotations

import pickle

from accel.distributed.ranks.rank_pool import RankPool


def test_each_rank_gets_what_all_say_and_what_the_first_says(pool: RankPool) -> None:
    def speak():
        import torch
        import torch.distributed as dist

        from accel.workload.exchanged_values import from_all_ranks, from_first_rank

        rank = dist.get_rank()
        mine = {"of": rank, ("a", 1): [torch.arange(1000 * rank), None, "ä", 2.5, b"x"]}
        return from_all_ranks(mine), from_first_rank(["first"] if rank == 0 else print)

    for gathered, said in pool.run(speak):
        assert [each["of"] for each in gathered] == [0, 1]
        assert [len(each["a", 1][0]) for each in gathered] == [0, 1000]
        assert gathered[1]["a", 1][1:] == [None, "ä", 2.5, b"x"]
        assert said == ["first"]


def test_code_in_what_arrives_is_refused(pool: RankPool) -> None:
    def speak():
        from accel.workload.exchanged_values import from_all_ranks

        class Runs:
            def __reduce__(self):
                return print, ("ran",)

        try:
            from_all_ranks(Runs())
        except Exception as error:
            return isinstance(error, pickle.UnpicklingError)

    assert all(pool.run(speak))


def test_every_keyword_that_is_not_the_time_limit_is_the_functions(pool):
    def given(*values, **named):
        return values, named

    named = {"backend": "mine", "trains": False, "pool": 3}
    assert pool.run(given, 1, timeout_s=30.0, **named) == [((1,), named)] * 2
