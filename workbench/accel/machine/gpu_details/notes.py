"""What is worth knowing about a GPU's state, each with what to do; nothing of a GPU that is as it should be."""

from __future__ import annotations

from collections.abc import Iterator

from accel.machine import clock_reasons
from accel.machine.gpu_details import peer_access
from accel.machine.gpu_details.details import GpuDetails, PcieLink
from accel.machine.gpu_details.nvlinks import SWITCH


def notes_of(details: GpuDetails) -> tuple[str, ...]:
    """One sentence a note; read after the GPU's name.

    >>> notes_of(accel.machine().gpus[0].details)
    ('may draw 300 W of the usual 450 W: nvidia-smi -pl 450, as administrator, gives them back',)
    """
    return (*_slowed(details), *_power(details), *_pcie(details.pcie), *_nvlinks(details), *_peers(details),
            *_mig(details), *_ecc(details))  # fmt: skip


def _slowed(details: GpuDetails) -> Iterator[str]:
    for reason in details.slowed_by or ():
        if reason != clock_reasons.IDLE:
            remedy = clock_reasons.remedy_for(reason)
            yield f"its clocks are held back by {reason}" + (f": {remedy}" if remedy else "")


def _power(details: GpuDetails) -> Iterator[str]:
    limit, usual = details.power.limit_w, details.power.default_limit_w
    if limit is not None and usual is not None and limit < usual - 1:
        yield f"may draw {limit:.0f} W of the usual {usual:.0f} W: nvidia-smi -pl {usual:.0f}, as administrator, gives them back"


def _pcie(pcie: PcieLink) -> Iterator[str]:
    most = pcie.own_width or pcie.most_width
    if pcie.width is not None and most is not None and pcie.width < most:
        slot = pcie.most_width is not None and pcie.most_width < most
        remedy = (
            "the slot has no more lanes: use another, or look at how the BIOS divides them"
            if slot
            else "look at slot, riser and the BIOS if it stays so while it computes"
        )
        yield f"runs at PCIe x{pcie.width} of x{most}, copies take up to {most / pcie.width:.0f} times as long: {remedy}"
    own, together = pcie.own_generation, pcie.most_generation
    if own is not None and together is not None and together < own:
        yield f"is in a slot of PCIe {together} and could do {own}: use another slot, or set its speed in the BIOS"


def _nvlinks(details: GpuDetails) -> Iterator[str]:
    links = details.nvlinks
    behind_switch = links is not None and any(peer == SWITCH for peer, _ in links.peers)
    if links is not None and behind_switch and links.active < links.count:
        yield f"has {links.active} of its {links.count} NVLinks up: nvidia-smi nvlink -s names those that are down"


def _peers(details: GpuDetails) -> Iterator[str]:
    without: dict[str, list[int]] = {}
    for peer in details.peers:
        if peer.is_possible is False:
            why = next(status for status in (peer.read, peer.write) if status not in (None, peer_access.OK))
            without.setdefault(str(why), []).append(peer.peer)
    for why, peers in without.items():
        remedy = peer_access.remedy_for(why)
        named = (
            "any other GPU"
            if len(peers) == len(details.peers)
            else ", ".join(f"GPU {peer}" for peer in peers)
        )
        yield f"does not reach the memory of {named}, {why}" + (f": {remedy}" if remedy else "")


def _mig(details: GpuDetails) -> Iterator[str]:
    mig = details.mig
    if mig is None:
        return
    if mig.instances:
        names = "; ".join(f"{each.name.rpartition('MIG ')[2]}: {each.uuid}" for each in mig.instances)
        yield f"is divided by MIG, and a process sees one instance: choose it with CUDA_VISIBLE_DEVICES ({names})"
    if mig.is_on != mig.is_on_after_reset:
        yield f"MIG will be {'on' if mig.is_on_after_reset else 'off'} after the next reset of the GPU"


def _ecc(details: GpuDetails) -> Iterator[str]:
    now, after = details.has_ecc, details.has_ecc_after_reset
    if now is not None and after is not None and now != after:
        yield f"ECC will be {'on' if after else 'off'} after the next reset of the GPU"
