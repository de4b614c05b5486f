"""Training steps on a GPU as kineto would record them, made by hand: 1 ms each, times in µs from the step's start."""

from __future__ import annotations

from tests.profiling.recorded_event import RecordedEvent

US = 1000
STEP_US = 1000
STREAM, COPIES, NCCL = 7, 13, 20
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int)"
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
BATCH_BYTES = 65_536


class GpuTrace:
    """Collects events; `phase`, `op` and `launch` take µs from the start of the current step.

    >>> trace = GpuTrace()
    >>> with trace.step():
    ...     trace.launch("aten::relu", 10, RELU, 20, 100)        # called at 10, runs from 20 to 100
    >>> read_columns(trace.events)
    """

    def __init__(self):
        self.events, self.number, self.at = [], 100, 0

    def add(self, name, start, end, **more):
        event = RecordedEvent(name, self.at + int(start * US), int((end - start) * US), **more)
        self.events.append(event)
        return event

    def phase(self, name, start, end):
        self.add(f"accel::{name}", start, end, number=self._next(), kind="user_annotation")

    def launch(self, op, called, work, begins, ends, **more):
        """An operation of 8 µs, its call into the runtime, and the kernel or copy that runs on the device."""
        kind = "gpu_memcpy" if work.startswith("Memcpy") else "kernel"
        call = "cudaMemcpyAsync" if kind == "gpu_memcpy" else "cudaLaunchKernel"
        linked, number = self._next(), self._next()
        self.add(op, called - 2, called + 6, number=linked)
        self.add(call, called, called + 4, on_thread=4242, number=number, linked=linked)
        return self.add(work, begins, ends, number=number, linked=linked, on_device=1, kind=kind, **more)

    def end_step(self):
        self.add("accel.step", 950, 950, number=self._next(), kind="user_annotation")
        self.at += STEP_US * US

    def synchronise(self, start, end):
        self.add(
            "cudaDeviceSynchronize", start, end, on_thread=4242, number=self._next(), kind="cuda_runtime"
        )

    def _next(self):
        self.number += 1
        return self.number


def training_on_gpu(steps=7, *, copy=PAGEABLE):
    """Per step: data 0–100, copy 100–200, forward 200–500, backward 500–800, optimizer 800–900.

    The device copies from 120 to 170 and computes from 220 to 420 (gemm), 420 to 440 (relu), 540 to 740 (gemm).
    """
    trace = GpuTrace()
    for _ in range(steps):
        trace.phase("data", 0, 100)
        trace.phase("copy", 100, 200)
        trace.launch("aten::copy_", 110, copy, 120, 170, stream=COPIES, bytes=BATCH_BYTES)
        trace.phase("forward", 200, 500)
        trace.launch("aten::mm", 210, GEMM, 220, 420)
        trace.launch("aten::relu", 230, RELU, 420, 440)
        trace.phase("backward", 500, 800)
        trace.launch("aten::mm", 530, GEMM, 540, 740)
        trace.phase("optimizer", 800, 900)
        trace.end_step()
    trace.synchronise(0, 50)
    return trace
