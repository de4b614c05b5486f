"""Data sets by name: what comes with accel, what is read from disk, and what is said when it is not there."""

import hashlib
import pickle
import struct

import cloudpickle
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from accel.errors import AccelError, UnknownName
from accel.labs import CNN, load_dataset


def write_fashion_mnist(root, count):
    """Files in Fashion-MNIST's own format, with made-up pixels."""
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = bytes(index % 10 for index in range(count))
    for part in ("train", "t10k"):
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(header + pixels.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)
    return pixels


def write_cifar10(root):
    """Files in CIFAR-10's own format, 4 images each; returns the checksums torchvision is to expect."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    generator, sums = np.random.default_rng(0), {}
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"]:
        pixels = generator.integers(0, 256, (4, 3072), dtype=np.uint8)
        content = pickle.dumps({"data": pixels, "labels": [0, 1, 2, 3], "label_names": list("abcdefghij")})
        (folder / name).write_bytes(content)
        sums[name] = hashlib.md5(content).hexdigest()
    return sums


def test_digits_come_in_the_shape_of_fashion_mnist_and_standardised():
    digits = load_dataset("digits")
    images = torch.stack([image for image, _ in digits])
    assert images.shape == (1600, 1, 28, 28)
    assert abs(images.mean()) < 1e-3
    assert abs(images.std() - 1) < 1e-3
    assert repr(digits) == "digits: 1,600 images of 1×28×28, 10 classes"


def test_training_and_test_digits_are_all_1797_of_ten_classes():
    train, test = load_dataset("digits"), load_dataset("digits", train=False)
    assert len(train) + len(test) == 1797
    assert (train.mean, train.deviation) == (test.mean, test.deviation)
    assert set(train.labels.tolist()) == set(test.labels.tolist()) == set(range(10))


def test_digits_take_the_shape_of_cifar10():
    image, label = load_dataset("digits", shape=(3, 32, 32))[0]
    assert image.shape == (3, 32, 32)
    assert torch.equal(image[0], image[2])
    assert label == 0


def test_repeating_makes_a_longer_epoch_of_the_same_memory():
    digits = load_dataset("digits")
    thrice = digits.repeated(3)
    assert len(thrice) == 4800
    assert thrice.images.data_ptr() == digits.images.data_ptr()
    assert torch.equal(thrice[1600 + 7][0], digits[7][0])
    with pytest.raises(IndexError):
        thrice[4800]


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_a_data_set_crosses_to_another_process_whole(name):
    before = load_dataset(name, train=False)
    sent = cloudpickle.dumps(before)
    after = pickle.loads(sent)
    assert len(sent) < 1.1 * before.images.nbytes + 20_000
    assert torch.equal(before[3][0], after[3][0])
    assert repr(before) == repr(after)


def test_the_cnn_learns_the_digits():
    torch.manual_seed(0)
    model, loader = CNN(), DataLoader(load_dataset("digits"), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert len(losses) == 25
    assert sum(losses[-5:]) < sum(losses[:5]) / 2


def test_synthetic_images_are_the_same_each_time_and_tell_their_classes_apart():
    first, again = load_dataset("synthetic", shape=(3, 8, 8)), load_dataset("synthetic", shape=(3, 8, 8))
    assert torch.equal(first.images, again.images)
    means = torch.stack(
        [first.images[first.labels == label].float().mean(0).flatten() for label in range(10)]
    )
    nearest = torch.cdist(first.images.float().flatten(1), means).argmin(1)
    assert (nearest == first.labels).float().mean() > 0.9


def test_fashion_mnist_is_read_from_its_own_files(tmp_path):
    pixels = write_fashion_mnist(tmp_path, 20)
    found = load_dataset("fashion_mnist", root=tmp_path)
    assert repr(found) == "fashion_mnist: 20 images of 1×28×28, 10 classes"
    assert np.array_equal(found.images[5, 0].numpy(), pixels[5])
    assert found[13][1] == 3


def test_cifar10_is_read_from_its_own_files(tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR10

    sums = write_cifar10(tmp_path)
    for files in ("train_list", "test_list"):
        monkeypatch.setattr(CIFAR10, files, [[name, sums[name]] for name, _ in getattr(CIFAR10, files)])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": sums["batches.meta"]})
    found = load_dataset("cifar10", root=tmp_path, shape=(1, 28, 28))
    assert repr(found) == "cifar10: 20 images of 1×28×28, 10 classes"


def test_a_missing_data_set_names_the_folder_the_files_and_the_way_out(tmp_path):
    with pytest.raises(AccelError) as raised:
        load_dataset("fashion_mnist", root=tmp_path, train=False)
    said = str(raised.value)
    assert str(tmp_path / "FashionMNIST" / "raw") in said
    assert "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte" in said
    assert 'fallback="digits"' in said


def test_only_the_files_that_are_missing_are_named(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(AccelError, match=r"lacks data_batch_3\."):
        load_dataset("cifar10", root=tmp_path)


def test_a_fallback_says_so_in_its_name_and_warns(tmp_path):
    with pytest.warns(UserWarning, match="cifar10 is not on this machine: using digits"):
        found = load_dataset("cifar10", root=tmp_path, fallback="digits")
    assert found.name == "digits (cifar10 not available)"
    assert found.shape == (3, 32, 32)


def test_an_unknown_name_gets_the_nearest_right_one():
    with pytest.raises(UnknownName, match="fashion_mnist"):
        load_dataset("fashion-mnist")
