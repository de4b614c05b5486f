"""Interfaces as /sys has them."""

from __future__ import annotations

from accel.machine.network_interfaces import network_interfaces


def interface(root, name, *, kind=1, speed="", state="up", card=True, rdma=""):
    folder = root / "sys/class/net" / name
    folder.mkdir(parents=True)
    for file, text in (("type", kind), ("speed", speed), ("operstate", state)):
        (folder / file).write_text(f"{text}\n")
    if card:
        (folder / "device").mkdir()
    if rdma:
        (folder / "device/infiniband" / rdma).mkdir(parents=True)


def test_kind_speed_and_rdma_of_each(tmp_path):
    interface(tmp_path, "eth0", speed=25_000)
    interface(tmp_path, "ib0", kind=32, speed=200_000, rdma="mlx5_0")
    interface(tmp_path, "br0", speed=-1, card=False)
    interface(tmp_path, "lo", kind=772, card=False, state="unknown")
    interface(tmp_path, "eth9", state="down")
    found = {each.name: each for each in network_interfaces(tmp_path)}
    assert [*found] == ["br0", "eth0", "ib0", "lo"]
    assert (found["eth0"].kind, found["eth0"].bytes_per_s, found["eth0"].rdma) == ("Ethernet", 25e9 / 8, "")
    assert (found["ib0"].kind, found["ib0"].bytes_per_s, found["ib0"].rdma) == (
        "InfiniBand",
        200e9 / 8,
        "mlx5_0",
    )
    assert (found["br0"].kind, found["br0"].bytes_per_s) == ("virtual", None)
    assert found["lo"].kind == "loopback"


def test_of_this_machine_loopback_is_the_last():
    assert network_interfaces()[-1].name == "lo"
