"""The trees of machines that are not here, written from what is known of them: counts, sizes and how CPUs are numbered.

    python -m tests.machine.trees.machines

writes their JSON files anew. Of /proc/cpuinfo there is the first CPU's part alone: the others differ in numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.machine.trees.tree_files import save

from accel.machine.cpu_lists import cpu_list

SPR_FLAGS = (
    "fpu sse4_2 avx f16c avx2 bmi2 fma avx512f avx512dq avx512cd avx512bw avx512vl avx512_bf16 avx512_vnni avx512_bitalg "
    "avx512_vpopcntdq avx_vnni amx_bf16 amx_tile amx_int8 avx512_fp16 flush_l1d arch_capabilities"
)
GENOA_FLAGS = "fpu sse4_2 avx f16c avx2 bmi2 fma avx512f avx512dq avx512cd avx512bw avx512vl avx512_bf16 avx512_vnni vaes"
RAPTOR_LAKE_FLAGS = "fpu sse4_2 avx f16c avx2 bmi2 fma avx_vnni vaes vpclmulqdq serialize arch_lbr"
CASCADE_LAKE_FLAGS = (
    "fpu sse4_2 avx f16c hypervisor avx2 bmi2 fma avx512f avx512dq avx512cd avx512bw avx512vl avx512_vnni"
)
V1_FEATURES = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 asimddp sha512 "
    "sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng"
)


@dataclass(frozen=True)
class Made:
    """What a tree is written from: of each CPU its core, socket, the CPUs of each cache, and its highest clock in kHz."""

    cpuinfo: str
    cores: Sequence[Sequence[int]]  # the CPUs of each core
    core_ids: Sequence[int]  # the number of each core within its socket
    sockets: Sequence[Sequence[int]]
    caches: Callable[
        [Sequence[int]], Sequence[tuple[int, str, str, Sequence[int]]]
    ]  # core → level, type, size, sharing CPUs
    clock_khz: Callable[[int], int] = lambda cpu: 0
    nodes: Sequence[Sequence[int]] = ()
    distances: Sequence[str] = ()
    memory_kb: int = 0
    swap_kb: int = 0
    huge_pages: str = "always [madvise] never"
    reserved: Mapping[int, int] = field(default_factory=lambda: {2048: 0, 1048576: 0})  # kB of a page → pages
    mask: Sequence[int] | None = None
    others: Mapping[str, str] = field(default_factory=dict)


def files(made: Made) -> dict[str, str]:
    """The tree's {path: text}."""
    cpus = sorted(cpu for core in made.cores for cpu in core)
    top = "sys/devices/system/cpu"
    found = {f"{top}/{name}": cpu_list(cpus) for name in ("online", "possible", "present")}
    found |= {f"{top}/kernel_max": "511", f"{top}/smt/active": str(int(len(cpus) > len(made.cores)))}
    for core_id, core in zip(made.core_ids, made.cores, strict=True):
        socket = next(number for number, members in enumerate(made.sockets) if core[0] in members)
        for cpu in core:
            found |= _cpu(f"{top}/cpu{cpu}", core_id, socket, core, made.sockets[socket], cpus[-1] + 1)
            if cpu:
                found[f"{top}/cpu{cpu}/online"] = "1"
            if clock := made.clock_khz(cpu):
                found[f"{top}/cpu{cpu}/cpufreq/cpuinfo_max_freq"] = str(clock)
            for index, (level, kind, size, shared) in enumerate(made.caches(core)):
                cache = f"{top}/cpu{cpu}/cache/index{index}"
                found |= {f"{cache}/level": str(level), f"{cache}/type": kind, f"{cache}/size": size}
                found |= _listed(cache, "shared_cpu", shared, cpus[-1] + 1, mask_ends="_map")
    found |= _nodes(made, cpus[-1] + 1)
    found |= _memory(made)
    mask = cpu_list(cpus if made.mask is None else made.mask)
    found |= {"proc/cpuinfo": made.cpuinfo, "proc/loadavg": "0.52 0.58 0.59 1/1374 40961"}
    found |= {
        "proc/self/status": f"Name:\tpython\nCpus_allowed_list:\t{mask}",
        "proc/self/cgroup": "0::/user.slice",
    }
    return found | dict(made.others)


def _cpu(
    folder: str, core: int, socket: int, siblings: Sequence[int], package: Sequence[int], width: int
) -> dict[str, str]:
    topology = f"{folder}/topology"
    return {
        f"{topology}/core_id": str(core), f"{topology}/physical_package_id": str(socket), f"{topology}/die_id": "0",
        **_listed(topology, "thread_siblings", siblings, width), **_listed(topology, "core_cpus", siblings, width),
        **_listed(topology, "core_siblings", package, width), **_listed(topology, "package_cpus", package, width),
    }  # fmt: skip


def _listed(folder: str, name: str, cpus: Sequence[int], width: int, mask_ends: str = "") -> dict[str, str]:
    """A set of CPUs in the kernel's two ways: as a list, and as a mask in groups of 32 bits."""
    number, groups = sum(1 << cpu for cpu in cpus), []
    for first in range(0, width, 32):
        groups.append(f"{number >> first & 0xFFFFFFFF:08x}")
    mask = ",".join(reversed(groups))
    return {f"{folder}/{name}_list": cpu_list(sorted(cpus)), f"{folder}/{name}{mask_ends}": mask}


def _nodes(made: Made, width: int) -> dict[str, str]:
    top, found = "sys/devices/system/node", {}
    for number, (cpus, distance) in enumerate(zip(made.nodes, made.distances, strict=True)):
        total = made.memory_kb // len(made.nodes)
        meminfo = {"MemTotal": total, "MemFree": total * 3 // 4, "MemUsed": total - total * 3 // 4}
        lines = [f"Node {number} {name + ':':<15}{value:>9} kB" for name, value in meminfo.items()]
        found |= {f"{top}/node{number}/meminfo": "\n".join(lines), f"{top}/node{number}/distance": distance}
        listed = _listed(f"{top}/node{number}", "cpu", cpus, width, mask_ends="map")
        found |= {path.replace("cpu_list", "cpulist"): text for path, text in listed.items()}
    return found | ({f"{top}/online": f"0-{len(made.nodes) - 1}".replace("0-0", "0")} if made.nodes else {})


def _memory(made: Made) -> dict[str, str]:
    free = made.memory_kb * 3 // 4
    lines = {
        "MemTotal": made.memory_kb, "MemFree": free, "MemAvailable": free + made.memory_kb // 8,
        "SwapTotal": made.swap_kb, "SwapFree": made.swap_kb,
    }  # fmt: skip
    found = {"proc/meminfo": "\n".join(f"{name + ':':<15}{value:>10} kB" for name, value in lines.items())}
    found["sys/kernel/mm/transparent_hugepage/enabled"] = made.huge_pages
    for size, pages in made.reserved.items():
        folder = f"sys/kernel/mm/hugepages/hugepages-{size}kB"
        found |= {f"{folder}/nr_hugepages": str(pages), f"{folder}/free_hugepages": str(pages // 2)}
    return found


def cpuinfo_of_x86(vendor: str, model: str, flags: str) -> str:
    return f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: {model}\nphysical id\t: 0\nflags\t\t: {flags}\n"


def xeon_2_sockets_smt() -> Made:
    """Two Xeon Platinum 8462Y+ (Sapphire Rapids): 2 × 32 cores, second threads last, 1 GiB huge pages set aside."""
    sockets = [[*range(32), *range(64, 96)], [*range(32, 64), *range(96, 128)]]
    return Made(
        cpuinfo_of_x86("GenuineIntel", "Intel(R) Xeon(R) Platinum 8462Y+", SPR_FLAGS),
        cores=[(n, n + 64) for n in range(64)], core_ids=[*range(32), *range(32)], sockets=sockets,
        caches=lambda core: [
            (1, "Data", "48K", core), (1, "Instruction", "32K", core), (2, "Unified", "2048K", core),
            (3, "Unified", "61440K", sockets[core[0] // 32]),
        ],
        clock_khz=lambda cpu: 4_100_000, nodes=sockets, distances=["10 21", "21 10"],
        memory_kb=527_884_512, huge_pages="[always] madvise never", reserved={2048: 0, 1048576: 64},
    )  # fmt: skip


def epyc_multi_ccd() -> Made:
    """One EPYC 9554P (Genoa) as four nodes (NPS4): eight chiplets of eight cores, each around a cache of its own."""
    chiplets = [[*range(8 * n, 8 * n + 8), *range(64 + 8 * n, 72 + 8 * n)] for n in range(8)]
    return Made(
        cpuinfo_of_x86("AuthenticAMD", "AMD EPYC 9554P 64-Core Processor", GENOA_FLAGS),
        cores=[(n, n + 64) for n in range(64)], core_ids=[*range(64)], sockets=[[*range(128)]],
        caches=lambda core: [
            (1, "Data", "32K", core), (1, "Instruction", "32K", core), (2, "Unified", "1024K", core),
            (3, "Unified", "32768K", chiplets[core[0] // 8]),
        ],
        clock_khz=lambda cpu: 3_762_988,
        nodes=[sorted(chiplets[2 * n] + chiplets[2 * n + 1]) for n in range(4)],
        distances=["10 12 12 12", "12 10 12 12", "12 12 10 12", "12 12 12 10"], memory_kb=395_817_328,
    )  # fmt: skip


def laptop_p_e_cores() -> Made:
    """A Core i7-13700H: six fast cores of two threads (0-11), two of them favoured, eight economical ones; no nodes."""

    def caches(core: Sequence[int]) -> list[tuple[int, str, str, Sequence[int]]]:
        is_fast = core[0] < 12
        four = core if is_fast else range(core[0] // 4 * 4, core[0] // 4 * 4 + 4)
        return [
            (1, "Data", "48K" if is_fast else "32K", core), (1, "Instruction", "32K" if is_fast else "64K", core),
            (2, "Unified", "1280K" if is_fast else "2048K", four), (3, "Unified", "24576K", range(20)),
        ]  # fmt: skip

    return Made(
        cpuinfo_of_x86("GenuineIntel", "13th Gen Intel(R) Core(TM) i7-13700H", RAPTOR_LAKE_FLAGS),
        cores=[*((n, n + 1) for n in range(0, 12, 2)), *((n,) for n in range(12, 20))],
        core_ids=[*range(0, 24, 4), *range(24, 32)], sockets=[[*range(20)]], caches=caches,
        clock_khz=lambda cpu: 5_000_000 if 4 <= cpu < 8 else 4_800_000 if cpu < 12 else 3_700_000,
        memory_kb=16_086_964, swap_kb=8_388_604,
        others={"sys/devices/cpu_core/cpus": "0-11", "sys/devices/cpu_atom/cpus": "12-19"},
    )  # fmt: skip


def arm_server() -> Made:
    """A Graviton3 instance: 64 Neoverse-V1 cores of one thread; no model name, no clock."""
    cpuinfo = f"processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: {V1_FEATURES}\n"
    cpuinfo += "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\nCPU revision\t: 1\n"
    return Made(
        cpuinfo, cores=[(n,) for n in range(64)], core_ids=[*range(64)], sockets=[[*range(64)]],
        caches=lambda core: [
            (1, "Data", "64K", core), (1, "Instruction", "64K", core), (2, "Unified", "1024K", core),
            (3, "Unified", "32768K", range(64)),
        ],
        nodes=[range(64)], distances=["10"], memory_kb=129_843_212, reserved={64: 0, 2048: 0, 32768: 0, 1048576: 0},
    )  # fmt: skip


def container_with_quota() -> Made:
    """A container of a pod on a cloud machine of 16 CPUs: confined to four of them, with a quota of 1.5 cores and 8 GiB."""
    group = "sys/fs/cgroup"
    return Made(
        cpuinfo_of_x86("GenuineIntel", "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", CASCADE_LAKE_FLAGS),
        cores=[(n, n + 8) for n in range(8)], core_ids=[*range(8)], sockets=[[*range(16)]],
        caches=lambda core: [
            (1, "Data", "32K", core), (1, "Instruction", "32K", core), (2, "Unified", "1024K", core),
            (3, "Unified", "36608K", range(16)),
        ],
        nodes=[range(16)], distances=["10"], memory_kb=64_938_740, mask=[2, 3, 10, 11],
        others={
            "proc/self/cgroup": "0::/", f"{group}/cpu.max": "150000 100000", f"{group}/cpuset.cpus.effective": "2-3,10-11",
            f"{group}/memory.max": str(8 * 2**30), f"{group}/memory.current": str(5 * 2**30),
            f"{group}/memory.stat": f"anon {3 * 2**30}\nfile {2 * 2**30}\ninactive_file {3 * 2**29}\nslab 81920",
        },
    )  # fmt: skip


MACHINES = (xeon_2_sockets_smt, epyc_multi_ccd, laptop_p_e_cores, arm_server, container_with_quota)

if __name__ == "__main__":
    for machine in MACHINES:
        save(machine.__name__, files(machine()))
