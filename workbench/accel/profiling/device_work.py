"""The kernels, copies and fills of one GPU, each with the call that launched it, and the time they are looked at in.

What a kernel or copy is, its name tells: matrix kernels carry the shape of the tensor-core instruction in it. Sources: the
list of NVIDIA's PyProf (pyprof/prof/tc.py), which torch-tb-profiler used too, and for newer libraries the names that cuBLAS,
cuDNN and CUTLASS give: `tensorop`, `tensor16x8x16`, `s16816`, `hmma`/`imma`/`wgmma`/`gmma`/`umma`, `nvjet`, flash attention,
`sm90_xmma_…_warpgroupsize`. AMD's Tensile writes the shape of its matrix instruction (`_MI16x16x16x1_`), Composable Kernel
`xdl`, Intel's oneDNN `dpas`. A name is no measurement: many kernels that Triton generated, or that somebody wrote by hand,
do not say what they compute on. Those count as unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.intervals import Intervals, union
from accel.profiling.kineto_columns import RUNTIME, is_of

if TYPE_CHECKING:
    from accel.profiling.kept_steps import KeptSteps
    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns

ON_TENSOR_CORES = re.compile(
    r"tensorop|tensor\d+x\d+x\d+|[hsic](?:884|1688|8816|16816|16832|16864)|hmma|imma|bmma|dmma|wgmma|[Gg]mma|utcmma|tcgen05"
    r"|nvjet_|sm\d+_xmma_\w*warpgroupsize|wmma|fmha_cutlass[FB]_b?f16|flash_(?:fwd|bwd)|cudnn_generated_\w*sdpa"
    r"|(?<![Ss])[Uu]mma|SM\d+_\d+x\d+x\d+_F|FlashAttn(?:Fwd|Bwd)|deep_gemm::|[Mm]arlin|fmhaSm\d+|bmm_\w+_sm1\d\d"
    r"|(?<![a-z])m\d+n\d+k\d+(?!\d)|_MI\d+x\d+x\d+|[Mm][Ff][Mm][Aa]|_xdl|xdlops|ck_tile::(?:Fmha|Gemm)|dpas|xmx|systolic"
)
ON_PLAIN_CORES = re.compile(r"simt|ffma")
# Kernels without tensor cores: torch's own, primitives of CUB and the like, Inductor's loops, plain matrix products.
NO_PRODUCT = re.compile(
    r"at::native::|at_cuda_detail|cub::|thrust::|rocprim|elementwise|softmax|[Bb]atch_?[Nn]orm|[Ll]ayer_?[Nn]orm|reduce_kernel"
    r"|[sdcz]gemm_|^Cijk_|^Mem(?:set|cpy)|_scudnn|_engine<float|grouped_direct_kernel|convolve_sgemm|gemmSN_|gemv2[TN]|[Ww]inograd"
)
LOOPS = re.compile(r"triton_(?:poi|per|red)_")  # Inductor's, whatever operation they were fused for
# Kernels that multiply, even if their names also contain softmax or a norm.
BY_TEMPLATE = re.compile(r"triton_tem_|attention|attn", re.IGNORECASE)
# What collectives are called in NCCL and its like, vLLM, SGLang, TensorRT-LLM, libraries of expert parallelism (DeepEP, Mooncake,
# MORI, PPLX) and torch's symmetric memory; kernels of one GPU reduce over a warp or a block.
COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|nvshmem|deep_ep|cross_device_reduce|quick_?reduce|symm(?:etric)?_?mem|lamport|userbuffers"
    r"|(?<!warp)(?<!block)(?<!warp_)(?<!block_)(?:(?<![a-z])|(?-i:(?=A)))all_?(?:reduce|gather|to_?all)|reduce_?scatter"
    r"|(?:one|two)_?shot_?all_?reduce|oneccl"
    r"|(?<![a-z])ep(?:::|_)?(?:inter_?node|intra_?node|dispatch|combine)|(?:(?<![a-z0-9])|(?-i:(?=A)))a2a",
    re.IGNORECASE,
)
GENERATED = re.compile(
    r"triton_(?:poi|per|red|tem|for)_"
)  # kernels by Inductor, whose names contain the fused operations
COPY = re.compile(r"Mem(?:cpy|ory copy) (\w)to(\w)(?: \((\w+) -> (\w+)\))?", re.IGNORECASE)
PLACES = {"h": "host", "d": "device", "p": "device", "a": "array"}


class Copied(NamedTuple):
    """What a copy moved: the kind in words, and what the host's side of it (if there is one) is made of."""

    kind: str
    memory: str


def uses_tensor_cores(kernel: str) -> bool | None:
    """Whether the kernel's name says that it multiplies matrices on tensor cores (AMD: matrix cores); None: it does not say.

    >>> uses_tensor_cores("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn")
    True
    >>> uses_tensor_cores("ampere_sgemm_128x64_nn")
    False
    >>> uses_tensor_cores("triton_tem_fused_mm_0")     # None
    """
    if ON_PLAIN_CORES.search(kernel):
        return False
    if ON_TENSOR_CORES.search(kernel):
        return True
    if LOOPS.search(kernel):
        return False
    if BY_TEMPLATE.search(kernel):
        return None
    return False if NO_PRODUCT.search(kernel) or is_communication(kernel) else None


def is_communication(kernel: str) -> bool:
    """Whether it is a kernel that GPUs exchange data with: NCCL's and RCCL's, or a library's own all-reduce and the like.

    >>> is_communication("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(...)")
    True
    """
    return bool(COMMUNICATION.search(kernel)) and not GENERATED.match(kernel)


def what_was_copied(name: str) -> Copied:
    """Read the name that kineto gives a copy.

    >>> what_was_copied("Memcpy HtoD (Pageable -> Device)")
    Copied(kind='host to device', memory='pageable')
    """
    found = COPY.match(name)
    if not found:
        return Copied(name, "unknown")
    source, target = (PLACES.get(letter.lower(), letter) for letter in found.group(1, 2))
    sides = {source: found[3], target: found[4]}
    return Copied(f"{source} to {target}", (sides.get("host") or sides.get("device") or "unknown").lower())


WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """One entry per kernel, copy or fill of one GPU; `row` is its place in the columns.

    A step ends for a GPU when the CPU has reached the step's end *and* the GPU has finished what was launched until then: where
    the GPU runs behind, `from_ns` and `until_ns` are later than those of the steps that were kept. `is_kept` is the work
    launched by those steps.
    """

    device: int
    row: Ints
    begins: Ints
    ends: Ints
    launched_ns: Ints
    is_kept: Flags
    from_ns: int
    until_ns: int

    def busy(self, which: Flags | None = None) -> Intervals:
        """When at least one of them ran, over all streams, between from and until."""
        import numpy as np

        chosen = slice(None) if which is None else which
        begins, ends = self.begins[chosen], self.ends[chosen]
        return union(np.maximum(begins, self.from_ns), np.minimum(ends, self.until_ns))


def launch_calls(columns: KinetoColumns) -> Ints:
    """For each event on a device, the row of the call into the runtime that made it, or -1."""
    import numpy as np

    calls = np.flatnonzero(is_of(columns.kind, columns.kinds, RUNTIME) & (columns.correlation > 0))
    made = np.full(len(columns), -1)
    if not len(calls):
        return made
    calls = calls[np.argsort(columns.correlation[calls], kind="stable")]
    known = columns.correlation[calls]
    place = np.minimum(np.searchsorted(known, columns.correlation), len(calls) - 1)
    matches = (columns.device >= 0) & (known[place] == columns.correlation)
    made[matches] = calls[place[matches]]
    return made


def read_device_work(columns: KinetoColumns, kept: KeptSteps) -> tuple[DeviceWork, ...]:
    """What each GPU did, in the order of their numbers; empty for a trace of the CPU alone."""
    import numpy as np

    rows = np.flatnonzero(is_of(columns.kind, columns.kinds, WORK) & (columns.device >= 0))
    if not len(rows):
        return ()
    launched = launch_times(columns)
    return tuple(
        _one_device(columns, kept, int(device), rows[columns.device[rows] == device], launched)
        for device in np.unique(columns.device[rows])
    )


def launch_times(columns: KinetoColumns) -> Ints:
    """When each event was asked for: by its call, else by the operation it is linked to, else when it began.

    Correlations count up: work with a smaller one than any call recorded was asked for before the recording began.
    """
    import numpy as np

    calls = launch_calls(columns)
    asked_by = np.where(calls >= 0, calls, columns.launcher)
    times: Ints = np.where(asked_by >= 0, columns.start_ns[asked_by], columns.start_ns)
    recorded = columns.correlation[calls[calls >= 0]]
    if len(recorded):
        is_earlier = (columns.device >= 0) & (asked_by < 0) & (columns.correlation > 0)
        times[is_earlier & (columns.correlation < recorded.min())] = columns.start_ns.min() - 1
    return times


def finished_by_gpus(columns: KinetoColumns, kept: KeptSteps, times_ns: Ints) -> Ints:
    """Those times, each put off until the GPUs have done what was launched before it."""
    import numpy as np

    work = read_device_work(columns, kept)
    launched = np.concatenate([np.zeros(0, dtype=np.int64), *(each.launched_ns for each in work)])
    ends = np.concatenate([np.zeros(0, dtype=np.int64), *(each.ends for each in work)])
    return np.array([_done(time, launched, ends) for time in times_ns.tolist()], dtype=np.int64)


def _one_device(
    columns: KinetoColumns, kept: KeptSteps, device: int, rows: Ints, launched: Ints
) -> DeviceWork:
    begins, asked = columns.start_ns[rows], launched[rows]
    ends = begins + columns.duration_ns[rows]
    from_ns, until_ns = _done(kept.from_ns, asked, ends), _done(kept.until_ns, asked, ends)
    if (
        until_ns <= from_ns
    ):  # the warm-up's work outlasted all of these steps, and they asked for none of their own
        from_ns, until_ns = kept.from_ns, max(kept.until_ns, kept.from_ns + 1)
    return DeviceWork(
        device, rows, begins, ends, asked,
        (asked >= kept.from_ns) & (asked < kept.until_ns), from_ns, until_ns,
    )  # fmt: skip


def _done(time_ns: int, launched: Ints, ends: Ints) -> int:
    """That time, or later: when everything launched before it had ended."""
    before = launched < time_ns
    return max(time_ns, int(ends[before].max())) if before.any() else time_ns
