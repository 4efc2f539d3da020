"""Whatever happens to a writer, the old file or the new one is there."""

import os
import resource
import stat

import pytest

from sktopk import TopKClassifier
from sktopk.io import dump, load

pytest.importorskip("skops")


def test_a_full_disk_leaves_the_old_file_and_nothing_else(blobs, path):
    clf = TopKClassifier(k=2, max_epochs=1, random_state=0).fit(*blobs)
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            dump(clf, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_a_missing_folder_is_named(path):
    with pytest.raises(FileNotFoundError, match=str(path)):
        dump(TopKClassifier(), path / "none")


def test_links_stay_links_and_modes_are_those_of_any_file(path):
    link, other = path.with_name("link"), path.with_name("other")
    path.write_bytes(b"old")
    link.symlink_to(path)
    assert dump(TopKClassifier(tau=2.0), link) == str(link)
    assert link.is_symlink()
    assert load(path).tau == 2.0
    other.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
