"""A check of transforms: what a pipeline makes of a large photo, and in which time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from accel.labs.exercises.seen import Seen, measured, wrong_work

if TYPE_CHECKING:
    from PIL import Image

PHOTO = (1600, 1200)
NEARLY = 0.06  # of a standardised picture, as a mean: bytes that are rounded before they are scaled make 0.02
TIMED = 5


def same_picture_faster(given: object, faster: object, *, at_least: float) -> Seen:
    """Whether a pipeline gives nearly the picture that the given one gives of a large photo, in less time.

    >>> same_picture_faster(slow, Compose([Resize(54), CenterCrop(48), ToTensor()]), at_least=2).passed
    True
    """
    asked = f"Nearly the same picture, at least {at_least:g} times as fast."
    if not callable(given) or not callable(faster):
        raise wrong_work(
            "a pipeline", "one of both cannot be called", "Pass two Compose(…): the given, then yours."
        )
    photo = _photo()
    wanted, got = given(photo), faster(photo)
    if not isinstance(got, torch.Tensor) or got.shape != wanted.shape or got.dtype != wanted.dtype:
        shape = (
            tuple(got.shape) if isinstance(got, torch.Tensor) else f"of type {type(got).__name__}, no tensor"
        )
        hint = "The last transform has to give what the given pipeline gives: look at shape and dtype."
        return Seen(False, f"Your picture is {shape}; it was {tuple(wanted.shape)}.", asked, {}, hint)
    apart = float((got - wanted).abs().mean())
    if not apart <= NEARLY:  # NaN is no nearer than any number
        hint = "Your picture has numbers that are none (NaN): look what each transform expects, such as values from 0 to 1."
        if apart > NEARLY:
            hint = "Another part of the photo, another scale, or a step is missing. Change the order only, and cut after Resize."
        saw = f"Your picture is another one: its numbers differ by {apart:.2f} on average."
        return Seen(False, saw, asked, {"apart": apart}, hint)
    passed, ratio, times = measured(lambda: _ratio(given, faster, photo), at_least=at_least)
    saw = f"Your pipeline is {ratio:.1f} times as fast as the given one, and the picture is nearly the same."
    hint = "Which of these transforms makes the photo small? All that stands before it works on two million pixels."
    return Seen(passed, saw, asked, {"ratio": ratio, "apart": apart, "measured": float(times)}, hint)


def _photo() -> Image.Image:
    """A large photo with something to see everywhere; the same each time."""
    from torchvision.transforms.functional import resize, to_pil_image

    draw = random.Random(0)
    coarse = torch.tensor([draw.random() for _ in range(3 * 12 * 16)]).reshape(3, 12, 16)
    photo: Image.Image = to_pil_image(resize(coarse, [PHOTO[1], PHOTO[0]]))
    return photo


def _ratio(given: Callable[[Any], Any], faster: Callable[[Any], Any], photo: Image.Image) -> float:
    """The speed-up of `faster` over `given`: the ratio of their CPU times, on one thread as in a DataLoader worker."""
    spent: tuple[list[float], list[float]] = ([], [])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(TIMED):
            for pipeline, seconds in zip((given, faster), spent, strict=True):
                fresh = photo.copy()  # a pipeline that remembers a photo is no faster one
                started = time.thread_time()
                pipeline(fresh)
                seconds.append(time.thread_time() - started)
    finally:
        torch.set_num_threads(threads)
    return min(spent[0]) / min(spent[1])
