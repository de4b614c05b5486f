"""What the name of a kernel or copy tells: tensor cores, communication, what was copied from where to where.

Matrix kernels carry the shape of the tensor-core instruction in their name. Sources: the list of NVIDIA's PyProf
(pyprof/prof/tc.py), which torch-tb-profiler used too, and for newer libraries the names that cuBLAS, cuDNN and CUTLASS give:
`tensorop`, `tensor16x8x16`, `s16816`, `hmma`/`imma`/`wgmma`/`gmma`, `nvjet`, `sm90_xmma_…_warpgroupsize`, flash attention.
A name is no measurement: a kernel that Triton generated does not tell, so the share found is a lower bound.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ON_TENSOR_CORES = re.compile(
    r"tensorop|tensor\d+x\d+x\d+|[hsic](?:884|1688|8816|16816|16832|16864)|hmma|imma|bmma|dmma|wgmma|gmma|utcmma|tcgen05"
    r"|nvjet_|sm\d+_xmma_\w*warpgroupsize|wmma|fmha_cutlass[FB]_b?f16|flash_(?:fwd|bwd)|cudnn_generated_\w*sdpa"
)
ON_PLAIN_CORES = re.compile(r"simt|ffma")
COMMUNICATION = re.compile(r"^(?:nccl|rccl)|ncclDevKernel|ncclKernel")
COPY = re.compile(r"Mem(?:cpy|ory copy) (\w)to(\w)(?: \((\w+) -> (\w+)\))?", re.IGNORECASE)
PLACES = {"h": "host", "d": "device", "p": "device", "a": "array"}


class Copied(NamedTuple):
    """What a copy moved: the kind in words, and what the host's side of it (if there is one) is made of."""

    kind: str
    memory: str


def uses_tensor_cores(kernel: str) -> bool:
    """Whether the kernel's name says that it multiplies matrices on tensor cores.

    >>> uses_tensor_cores("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn")
    True
    >>> uses_tensor_cores("ampere_sgemm_128x64_nn")
    False
    """
    return bool(ON_TENSOR_CORES.search(kernel)) and not ON_PLAIN_CORES.search(kernel)


def is_communication(kernel: str) -> bool:
    """Whether it is a kernel of NCCL (on AMD of RCCL, which uses the same names)."""
    return bool(COMMUNICATION.search(kernel))


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
