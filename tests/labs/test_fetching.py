"""Data sets of the course from the network: only where asked for, and a failure says which files belong where."""

from __future__ import annotations

import socket

import pytest

from accel.errors import AccelError, UnknownName
from accel.labs.course.fetching import fetch


def test_a_download_that_fails_says_which_files_belong_where_and_leaves_the_time_out_as_it_was(tmp_path):
    waited = []

    def refuse(name, folder):
        waited.append(socket.getdefaulttimeout())
        raise OSError("Network is unreachable")

    with pytest.raises(AccelError, match="Network is unreachable") as found:
        fetch("cifar10", tmp_path, timeout_s=3, download=refuse)
    assert "data_batch_1" in found.value.do
    assert str(tmp_path) in found.value.do
    assert waited == [3]
    assert socket.getdefaulttimeout() is None


def test_a_data_set_that_comes_with_accel_is_named_with_its_size_and_hash():
    found = fetch("digits")
    assert found.identity.startswith("digits: 1,600 images of 1×28×28, 10 classes, sha256 ")
    assert found.identity == fetch("digits").identity
    assert "nothing to fetch" in str(found)


def test_another_data_set_is_an_error_with_those_there_are(tmp_path):
    with pytest.raises(UnknownName, match="fashion_mnist"):
        fetch("imagenet", tmp_path)
