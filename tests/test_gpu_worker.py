"""Two workers of a search do not train on one GPU at the same time."""

import multiprocessing

import pytest
import torch

from sktopk._training import _gpu_worker
from sktopk._training._gpu_worker import is_worker, one_worker

GPU = torch.device("cuda:0")


def as_on(gpu):
    """Let every GPU of this process be the one of that name."""
    _gpu_worker.gpu_name = lambda device: gpu


def hold(gpu, ready, done):
    as_on(gpu)
    assert is_worker()
    with one_worker(GPU):
        ready.set()
        done.wait(60)


def ask(gpu, answers):
    as_on(gpu)
    try:
        with one_worker(GPU):
            answers.put("free")
    except RuntimeError as error:
        answers.put(str(error))


@pytest.fixture
def start(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spawn = multiprocessing.get_context("spawn")
    processes = []

    def start(function, *args):
        processes.append(spawn.Process(target=function, args=args))
        processes[-1].start()
        return processes[-1]

    start.context = spawn
    yield start
    for process in processes:
        process.kill()
        process.join()


def test_the_second_worker_on_a_gpu_is_told_and_the_next_is_let_in(start):
    ready, done, answers = start.context.Event(), start.context.Event(), start.context.Queue()
    first = start(hold, "A", ready, done)
    assert ready.wait(60)
    start(ask, "A", answers).join()
    message = answers.get(timeout=10)
    assert f"another worker trains (process {first.pid}; this one is" in message
    assert "CUDA_VISIBLE_DEVICES" in message
    start(ask, "B", answers).join()
    assert answers.get(timeout=10) == "free"
    first.kill()
    first.join()
    start(ask, "A", answers).join()
    assert answers.get(timeout=10) == "free"


def test_the_process_of_a_user_may_share(monkeypatch):
    monkeypatch.setattr(_gpu_worker, "gpu_name", lambda device: pytest.fail("asked for the lock"))
    assert not is_worker()
    with one_worker(GPU), one_worker(GPU):
        pass


def test_workers_share_a_cpu():
    with one_worker(torch.device("cpu")):
        pass
