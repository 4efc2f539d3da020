"""Choose settings on the validation samples of one seed, and test them with other seeds."""

from itertools import product
from typing import NamedTuple

from _protocol import run_missing, seeds_of

# The seed of the runs that choose settings; no tested run has it.
TUNING = 1000


class Case(NamedTuple):
    """A method on a dataset.

    A run has the settings `what`, then one value of each parameter in `values`, then `more`. The
    values with the best `metric` on validation samples are chosen.
    """

    what: dict
    values: dict
    more: dict
    metric: str

    def of(self, runs):
        """Return the tested runs of the case, and its runs with the tuning seed."""
        here = runs
        for name, value in (self.what | self.more).items():
            here = here[here[name] == value]
        is_tuning = here.seed == TUNING
        return here[~is_tuning], here[is_tuning]

    def choices(self):
        return [
            dict(zip(self.values, each, strict=True)) for each in product(*self.values.values())
        ]

    def chosen(self, runs):
        """Return the values with the best metric, or the first of equally good ones."""
        tuned = self.of(runs)[1]
        best = tuned.loc[[tuned[self.metric].idxmax()]]
        return {name: best[name].item() for name in self.values}


def choose_and_judge(run, cases, args, *, seconds):
    """Train each case with all values and the tuning seed, then the best values with other seeds.

    Parameters and returned frame are the same as in `_protocol.run_missing`. The small scale tries
    only two combinations of values.
    """
    most = 2 if args.scale == "small" else None
    settings = [
        case.what | choice | {"seed": TUNING} | case.more
        for case in cases
        for choice in case.choices()[:most]
    ]
    runs = run_missing(run, settings, args, seconds=seconds)
    here = runs[runs.scale == args.scale]
    # A case with missing choices is not tested.
    cases = [case for case in cases if len(case.of(here)[1]) >= len(case.choices()[:most])]
    settings = [
        case.what | case.chosen(here) | {"seed": seed} | case.more
        for seed in seeds_of(args)
        for case in cases
    ]
    return run_missing(run, settings, args, seconds=seconds) if settings else runs
