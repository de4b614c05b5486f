"""Checks of mixed precision: right formats, steps and scalers pass; each usual mistake gets the hint that is for it."""

from __future__ import annotations

import pytest
import torch

from accel.errors import AccelError
from accel.labs.exercises.of_formats import mixed_step, narrow_format, own_scaler


def worst(values, dtype):
    known = values[values != 0].double()
    return ((known.to(dtype).double() - known) / known).abs().max().item()


def narrow(values, most):
    best = min((torch.float16, torch.bfloat16), key=lambda dtype: worst(values, dtype))
    return best if worst(values, best) <= most else torch.float32


def with_zeros(values, most):
    errors = {
        t: ((values.to(t).float() - values) / values).abs().max() for t in (torch.float16, torch.bfloat16)
    }
    best = min(errors, key=errors.get)
    return best if errors[best] <= most else torch.float32


def test_the_format_that_errs_less_passes():
    assert narrow_format(narrow).passed


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda values, most: torch.bfloat16, "Round to each format and back"),
        (lambda values, most: torch.float16, "Round to each format and back"),
        (
            lambda values, most: min((torch.float16, torch.bfloat16), key=lambda t: worst(values, t)),
            "with `most`",
        ),
        (with_zeros, "Leave zeros out"),
        (lambda values, most: values.no_such_thing, "Round to each format and back"),
    ],
    ids=["always bf16", "always fp16", "most ignored", "zeros", "raises"],
)
def test_each_mistake_of_a_format_has_its_hint(function, hint):
    seen = narrow_format(function)
    assert not seen.passed
    assert hint in seen.hint


def step_by(
    *, loss_inside=True, backward_inside=False, update_inside=False, clears=True, dtype=torch.bfloat16
):
    """A training step with its parts in or out of autocast."""

    def step(model, images, labels, optimizer, criterion):
        if clears:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            outputs = model(images)
            loss = criterion(outputs, labels) if loss_inside else None
            if backward_inside:
                loss.backward()
            if update_inside:
                loss.backward()
                optimizer.step()
        if not loss_inside:
            loss = criterion(outputs, labels)
        if not (backward_inside or update_inside):
            loss.backward()
        if not update_inside:
            optimizer.step()
        return loss

    return step


def float32_step(model, images, labels, optimizer, criterion):
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


def bfloat16_weights(model, images, labels, optimizer, criterion):
    model.bfloat16()
    optimizer.zero_grad()
    loss = criterion(model(images.bfloat16()), labels)
    loss.backward()
    optimizer.step()
    return loss


def loss_widened_outside(model, images, labels, optimizer, criterion):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model(images)
    loss = criterion(outputs.float(), labels)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize(
    "step", [step_by(), loss_widened_outside], ids=["loss inside", "loss in float32 outside"]
)
def test_autocast_round_forward_and_loss_passes(step):
    seen = mixed_step(step)
    assert seen.passed, seen
    assert seen.figures["layers"] == "bfloat16"


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (float32_step, "round the forward pass and the loss"),
        (step_by(dtype=torch.float16), "round the forward pass and the loss"),
        (bfloat16_weights, "Leave the model as it is"),
        (step_by(loss_inside=False), "take the criterion into the block"),
        (step_by(backward_inside=True), "End the block after the loss"),
        (step_by(update_inside=True), "End the block after the loss"),
        (step_by(clears=False), "clear the gradients"),
    ],
    ids=["float32", "float16", "weights", "loss outside", "backward inside", "update inside", "not cleared"],
)
def test_each_mistake_of_a_step_has_its_hint(step, hint):
    seen = mixed_step(step)
    assert not seen.passed
    assert hint in seen.hint, seen


def test_a_step_that_raises_is_no_pass():
    seen = mixed_step(lambda *_: 1 / 0)
    assert not seen.passed
    assert "ZeroDivisionError" in seen.saw


class Scaler:
    """The right one; subclasses make one mistake each."""

    def __init__(self, scale, patience):
        self.scale, self.patience, self.good = scale, patience, 0

    def backward(self, loss, gradients):
        (loss * self.scale).backward()
        for each in gradients():
            each /= self.scale

    def is_good(self, gradients):
        return all(bool(each.isfinite().all()) for each in gradients)

    def overflowed(self):
        self.scale, self.good = self.scale / 2, 0

    def went_well(self):
        self.good += 1
        if self.good == self.patience:
            self.scale, self.good = self.scale * 2, 0

    def step(self, loss, optimizer):
        def gradients():
            return [each.grad for group in optimizer.param_groups for each in group["params"]]

        self.backward(loss, gradients)
        if not self.is_good(gradients()):
            self.overflowed()
            return
        optimizer.step()
        self.went_well()


class Plain(Scaler):
    def step(self, loss, optimizer):
        loss.backward()
        optimizer.step()


class NotDivided(Scaler):
    def backward(self, loss, gradients):
        (loss * self.scale).backward()


class ScaledTooLate(Scaler):
    def backward(self, loss, gradients):
        loss.backward()


class LooksAtTheLast(Scaler):
    def is_good(self, gradients):
        return super().is_good(gradients[-1:])


class LooksForInfinityAlone(Scaler):
    def is_good(self, gradients):
        return True


class KeepsItsScale(Scaler):
    def overflowed(self):
        self.good = 0


class NeverGrows(Scaler):
    def went_well(self):
        pass


class CountsAcrossOverflows(Scaler):
    def overflowed(self):
        self.scale /= 2


class StepsTwice(Scaler):
    def went_well(self):
        super().went_well()

    def step(self, loss, optimizer):
        super().step(loss, optimizer)
        optimizer.step()


class DividesByTheNewScale(Scaler):
    def backward(self, loss, gradients):
        (loss * self.scale).backward()
        for each in gradients():
            each /= 2 * self.scale


def test_a_scaler_that_skips_halves_and_doubles_passes():
    seen = own_scaler(Scaler)
    assert seen.passed, seen


def test_torch_s_own_scaler_passes():
    class OfTorch:
        def __init__(self, scale, patience):
            self.inner = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=patience)

        @property
        def scale(self):
            return self.inner.get_scale()

        def step(self, loss, optimizer):
            self.inner.scale(loss).backward()
            self.inner.step(optimizer)
            self.inner.update()

    seen = own_scaler(OfTorch)
    assert seen.passed, seen


@pytest.mark.parametrize(
    ("scaler", "hint"),
    [
        (Plain, "Multiply the loss"),
        (ScaledTooLate, "Multiply the loss"),
        (NotDivided, "before the optimizer steps"),
        (DividesByTheNewScale, "Divide by the scale that the loss was multiplied with"),
        (LooksAtTheLast, "Look at all gradients"),
        (LooksForInfinityAlone, "Look at all gradients"),
        (KeepsItsScale, "halve the scale"),
        (NeverGrows, "Count good steps in a row"),
        (CountsAcrossOverflows, "ends the row"),
        (StepsTwice, "A good step updates once"),
    ],
)
def test_each_mistake_of_a_scaler_has_its_hint(scaler, hint):
    seen = own_scaler(scaler)
    assert not seen.passed
    assert hint in seen.hint, seen


def test_a_scaler_that_raises_is_no_pass():
    class Raises(Scaler):
        def step(self, loss, optimizer):
            raise ValueError("not yet")

    seen = own_scaler(Raises)
    assert not seen.passed
    assert "ValueError: not yet" in seen.saw


@pytest.mark.parametrize("check", [narrow_format, mixed_step, own_scaler])
def test_something_that_is_no_function_is_refused(check):
    with pytest.raises(AccelError, match="Pass the function itself"):
        check(3)


def test_a_function_is_no_scaler():
    with pytest.raises(AccelError, match="Pass the class itself"):
        own_scaler(lambda scale, patience: None)


def test_weights_that_are_bfloat16_only_during_the_step_do_not_pass():
    def hidden(model, images, labels, optimizer, criterion):
        model.bfloat16()
        optimizer.zero_grad()
        loss = criterion(model(images.bfloat16()).float(), labels)
        loss.backward()
        optimizer.step()
        model.float()
        return loss

    assert not mixed_step(hidden).passed


def test_a_check_leaves_the_notebooks_random_numbers_as_they_are():
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    mixed_step(step_by())
    assert torch.equal(before, torch.random.get_rng_state())
