"""Hand-made kineto events, for traces that this machine cannot record: a GPU, a second thread."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RecordedEvent:
    """An event as kineto would give it; a kernel by default when it is on a device."""

    named: str
    start: int
    duration: int
    on_thread: int = 1
    number: int = 0
    linked: int = 0
    on_device: int = 0
    sequence: int = -1
    forward_thread: int = 0
    kind: str = ""
    index: int = 0
    stream: int = 7
    bytes: int = 0

    def name(self):
        return self.named

    def start_ns(self):
        return self.start

    def duration_ns(self):
        return self.duration

    def start_thread_id(self):
        return self.on_thread

    def correlation_id(self):
        return self.number

    def linked_correlation_id(self):
        return self.linked

    def device_type(self):
        return self.on_device

    def device_index(self):
        return self.index if self.on_device else 4711  # of the CPU's events torch gives the process id

    def device_resource_id(self):
        return self.stream if self.on_device else self.on_thread

    def sequence_nr(self):
        return self.sequence

    def fwd_thread_id(self):
        return self.forward_thread

    def activity_type(self):
        return self.activity_type_given()

    def activity_type_given(self):
        return self.kind or ("kernel" if self.on_device else "cuda_runtime" if self.linked else "cpu_op")

    def is_user_annotation(self):
        return self.activity_type_given().endswith("user_annotation")

    def is_async(self):
        return False

    def metadata_json(self):
        if not self.on_device:
            return ""
        place = f'"device": {self.index}, "context": 1, "stream": {self.stream}, "correlation": {self.number}'
        return f'{place}, "bytes": {self.bytes}, "memory bandwidth (GB/s)": 1.5' if self.bytes else place
