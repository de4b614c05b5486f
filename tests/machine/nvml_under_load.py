"""A driver's library with one GPU whose answers a test sets, and that counts what it was asked."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """What pynvml raises."""


class FakeNvml:
    """Answers what is in `answers`, by the name of the question; raises as the driver does for the rest."""

    NVMLError = NVMLError
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 197, 198
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "Count": 1,
            "HandleByIndex": "handle",
            "Name": b"NVIDIA H100",
        } | answers
        self.fields: dict[int, int] = {}
        self.asked: Counter[str] = Counter()

    def __getattr__(self, question: str) -> Any:
        if not question.startswith("nvmlDeviceGet"):
            raise AttributeError(question)
        what = question.removeprefix("nvmlDeviceGet")

        def answer(*arguments: Any) -> Any:
            self.asked[what] += 1
            if what == "FieldValues" and self.fields:
                return [self._field(number) for number, _ in arguments[1]]
            if what not in self.answers:
                raise NVMLError(what)
            return self.answers[what]

        return answer

    def _field(self, number: int) -> SimpleNamespace:
        is_known = number in self.fields
        value = SimpleNamespace(ullVal=self.fields.get(number, 0))
        return SimpleNamespace(nvmlReturn=0 if is_known else 3, valueType=3, value=value)
