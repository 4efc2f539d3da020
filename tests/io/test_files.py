"""After any failure of a writer, either the old file or the new file exists."""

import multiprocessing
import os
import resource
import signal
import stat

import pytest

from sktopk import TopKClassifier
from sktopk.io import dump, load

pytest.importorskip("skops")


def test_a_full_disk_keeps_only_the_old_file(blobs, path):
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


def test_a_missing_folder_raises_an_error_that_names_it(path):
    with pytest.raises(FileNotFoundError, match=str(path)):
        dump(TopKClassifier(), path / "none")


def test_links_stay_links_and_files_have_the_usual_permissions(path):
    link, other = path.with_name("link"), path.with_name("other")
    path.write_bytes(b"old")
    link.symlink_to(path)
    assert dump(TopKClassifier(tau=2.0), link) == str(link)
    assert link.is_symlink()
    assert load(path).tau == 2.0
    dump(TopKClassifier(), other)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
    path.chmod(0o600)
    # A link with a name that a temporary file could have.
    path.with_name("model.tmp").symlink_to(other)
    before = other.read_bytes()
    dump(TopKClassifier(tau=3.0), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert other.read_bytes() == before


def test_a_name_may_be_as_long_as_the_system_allows(path):
    longest = path.with_name("a" * 250)
    assert load(dump(TopKClassifier(tau=2.0), longest)).tau == 2.0
    assert os.listdir(path.parent) == [longest.name]


@pytest.mark.parametrize("name", ["x/", "x/.", "x/..", "."])
def test_a_path_of_a_folder_raises(name, tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    for call in (load, lambda each: dump(TopKClassifier(), each)):
        with pytest.raises(IsADirectoryError, match="path must be the path of a file"):
            call(f"{tmp_path}/{name}")
    assert (tmp_path / "x").read_bytes() == b"old"


def killed_dump(path):
    os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
    dump(TopKClassifier(), path)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_temporary_files_of_a_killed_process_are_deleted_by_the_next_writer(path):
    for _ in range(2):
        process = multiprocessing.get_context("fork").Process(target=killed_dump, args=(path,))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert len(os.listdir(path.parent)) == 1
    other = path.with_name("other")
    dump(TopKClassifier(), other)
    assert len(os.listdir(path.parent)) == 2
    dump(TopKClassifier(), path)
    assert sorted(os.listdir(path.parent)) == ["model", "other"]


def test_the_file_of_another_writer_is_not_deleted(path, monkeypatch):
    fsync = os.fsync

    def write_the_same_file(descriptor):
        monkeypatch.setattr(os, "fsync", fsync)
        dump(TopKClassifier(tau=3.0), path)
        assert load(path).tau == 3.0
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", write_the_same_file)
    dump(TopKClassifier(tau=2.0), path)
    assert load(path).tau == 2.0
    assert os.listdir(path.parent) == [path.name]
