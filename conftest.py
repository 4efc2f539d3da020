"""Settings of the processes that run tests. One that only distributes tests loads nothing."""

import sktopk


def pytest_collection():
    import matplotlib as mpl
    import torch

    mpl.use("Agg")
    # Tests run in parallel processes; with several threads each, they would compete for cores.
    torch.set_num_threads(1)
    # Doctests of the classes of `sktopk` are found there, once it has loaded them.
    for name in sktopk.__all__:
        getattr(sktopk, name)
