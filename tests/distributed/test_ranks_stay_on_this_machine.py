"""What ranks listen on while they talk: the loopback interface, where nobody outside this machine can connect."""

from __future__ import annotations

from accel.distributed.ranks.rank_pool import RankPool


def listening_addresses() -> list[str]:
    """In a rank, after ranks have talked to each other."""
    import psutil
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))
    sockets = psutil.Process().net_connections(kind="inet")
    return [each.laddr.ip for each in sockets if each.status == psutil.CONN_LISTEN]


def test_every_socket_that_a_rank_listens_on_is_of_the_loopback_interface(pool: RankPool) -> None:
    found = [address for addresses in pool.run(listening_addresses) for address in addresses]
    assert found  # gloo listens
    assert [address for address in found if not address.startswith("127.") and address != "::1"] == []
