"""The number formats of deep learning: what each can hold, and what a device can do with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from accel.shown import Shown

if TYPE_CHECKING:
    import pandas

Support = Literal["matrix units", "native", "emulated", "storage only", "no", "unknown"]

MEANING: dict[Support, str] = {
    "matrix units": "multiplied by tensor cores, AMX or dot-product instructions",
    "native": "computed by usual instructions",
    "emulated": "computed in float32 and rounded: slower than float32",
    "storage only": "can be stored and converted, not computed in",
    "no": "does not exist there",
    "unknown": "not reported by the system",
}


@dataclass(frozen=True)
class NumberFormat:
    """A format: how its bits are split, and what follows from it.

    `largest` is the largest finite number, `smallest_normal` the smallest one held with full precision, `epsilon` the distance
    from 1 to the next number. For whole numbers the bits are sign and value, and the two last are 1.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    total_bits: int
    largest: float
    smallest_normal: float
    epsilon: float

    @classmethod
    def with_bits(
        cls, name: str, exponent: int, fraction: int, *, largest: float | None = None
    ) -> NumberFormat:
        """A floating-point format as IEEE 754 builds them; `largest` where it gives infinity's bits to numbers.

        >>> NumberFormat.with_bits("fp16", 5, 10).largest
        65504.0
        """
        bias = 2 ** (exponent - 1) - 1
        usual = (2 - 2.0**-fraction) * 2.0**bias
        return cls(
            name,
            exponent,
            fraction,
            1 + exponent + fraction,
            largest or usual,
            2.0 ** (1 - bias),
            2.0**-fraction,
        )

    @classmethod
    def whole(cls, name: str, bits: int) -> NumberFormat:
        """A whole number with a sign."""
        return cls(name, 0, bits - 1, bits, float(2 ** (bits - 1) - 1), 1.0, 1.0)


FORMATS = (
    NumberFormat.with_bits("fp64", 11, 52),
    NumberFormat.with_bits("fp32", 8, 23),
    NumberFormat.with_bits("tf32", 8, 10),  # 19 bits, kept in 32
    NumberFormat.with_bits("bf16", 8, 7),
    NumberFormat.with_bits("fp16", 5, 10),
    NumberFormat.with_bits("fp8 e4m3", 4, 3, largest=448.0),  # torch.float8_e4m3fn: no infinity
    NumberFormat.with_bits("fp8 e5m2", 5, 2),
    NumberFormat.whole("int32", 32),
    NumberFormat.whole("int8", 8),
)


@dataclass(frozen=True)
class DeviceFormats:
    """How one device handles each format, in the order of `FORMATS`."""

    device: str
    support: tuple[Support, ...]

    def of(self, name: str) -> Support:
        """The answer for one format.

        >>> number_formats().devices[0].of("bf16")
        'matrix units'
        """
        return dict(zip((each.name for each in FORMATS), self.support, strict=True))[name]


@dataclass(frozen=True)
class NumberFormats(Shown):
    """All formats, with what each device of this machine does with them.

    >>> print(accel.number_formats())
    """

    devices: tuple[DeviceFormats, ...]
    formats: tuple[NumberFormat, ...] = FORMATS

    @property
    def legend(self) -> list[str]:
        """What the words in use mean."""
        used = {word for device in self.devices for word in device.support}
        return [f"{word}: {meaning}" for word, meaning in MEANING.items() if word in used]

    def to_dict(self) -> dict[str, Any]:
        """Every format with its numbers, and the answer of each device."""
        return {
            "formats": [
                asdict(each) | {"devices": {device.device: device.of(each.name) for device in self.devices}}
                for each in self.formats
            ]
        }

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a format, one column a device."""
        import pandas

        rows = self.to_dict()["formats"]
        return pandas.DataFrame([row | row.pop("devices") for row in rows])


def on_nvidia(capability: tuple[int, int]) -> dict[str, Support]:
    """By compute capability: Volta 7.0, Turing 7.5, Ampere 8.0 and 8.6, Ada 8.9, Hopper 9.0, Blackwell 10.0, 10.3 and 12.0.

    >>> on_nvidia((7, 5))["bf16"]
    'emulated'
    """
    since = capability
    has_fp8: Support = "matrix units" if since >= (8, 9) else "storage only"
    return {
        "fp64": "matrix units" if since in ((8, 0), (9, 0), (10, 0)) else "native",
        "fp32": "native",
        "tf32": "matrix units" if since >= (8, 0) else "no",
        "bf16": "matrix units" if since >= (8, 0) else "emulated",
        "fp16": "matrix units" if since >= (7, 0) else "native" if since >= (5, 3) else "emulated",
        "fp8 e4m3": has_fp8,
        "fp8 e5m2": has_fp8,
        "int32": "native",
        "int8": "matrix units" if since >= (7, 2) else "native",
    }


def on_tensor_cores(capability: tuple[int, int]) -> tuple[str, ...]:
    """The formats that an NVIDIA GPU's tensor cores multiply; empty before Volta, which has none.

    >>> on_tensor_cores((7, 0))
    ('fp16',)
    """
    support = on_nvidia(capability)
    return tuple(each.name for each in FORMATS if support.get(each.name) == "matrix units")
