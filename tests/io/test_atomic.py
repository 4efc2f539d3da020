"""Whatever happens to a writer, the old file or the new one is there."""

import os
import resource
import stat
import subprocess
import sys

import pytest

from sktopk import TopKClassifier
from sktopk.io import dump, load

pytest.importorskip("skops")
KILLED = """
import os, random, signal, sys, time, warnings
import torch
from sklearn.datasets import load_breast_cancer
from sktopk import TopKClassifier
from sktopk.io import dump, load

warnings.simplefilter("ignore")
torch.set_num_threads(1)
path, n_kills = sys.argv[1], int(sys.argv[2])
X, y = load_breast_cancer(return_X_y=True)
models = [
    TopKClassifier(k=1, hidden_layer_sizes=(200,), max_epochs=1, random_state=seed).fit(X, y)
    for seed in (0, 1)
]
expected = [model.decision_function(X[:3]).tolist() for model in models]
dump(models[0], path)  # which imports skops
started = time.perf_counter()
dump(models[0], path)
duration, rng, found = time.perf_counter() - started, random.Random(0), []
for _ in range(n_kills):
    pid = os.fork()
    if pid == 0:
        try:
            for i in range(10**9):
                dump(models[(i + 1) % 2], path)
        finally:
            os._exit(1)
    time.sleep(rng.uniform(0, 4 * duration))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    found.append(expected.index(load(path).decision_function(X[:3]).tolist()))
leftovers = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".tmp")]
dump(models[1], path)
assert expected.index(load(path).decision_function(X[:3]).tolist()) == 1
print(len(found), len(set(found)), len(leftovers))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(path):
    command = [sys.executable, "-c", KILLED, str(path), "10"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    n_loaded, n_different, n_leftovers = map(int, run.stdout.split())
    # Kills did hit writers, some of them while they wrote.
    assert (n_loaded, n_different) == (10, 2)
    assert n_leftovers > 0


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
