"""Choose on the validation rows of one seed, judge on those of others."""

from itertools import product
from typing import NamedTuple

from _protocol import run_missing, seeds_of

# Its seed is no other's.
TUNING = 1000


class Case(NamedTuple):
    """A method on some data: the first columns of its runs, what it chooses among, the last ones.

    `values` has the values of each thing to choose, `metric` is that of the validation rows.
    """

    what: dict
    values: dict
    more: dict
    metric: str

    def of(self, runs):
        """The runs of the case, by seeds that are judged and that is not."""
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
        """The choice of the best metric; the first of equally good ones."""
        tuned = self.of(runs)[1]
        best = tuned.loc[[tuned[self.metric].idxmax()]]
        return {name: best[name].item() for name in self.values}


def choose_and_judge(run, cases, args, *, seconds):
    """Train each case with every choice on the seed that is not judged, with the best on others.

    Parameters and frame returned are those of `_protocol.run_missing`; at the small scale there
    are but two choices.
    """
    most = 2 if args.scale == "small" else None
    settings = [
        case.what | choice | {"seed": TUNING} | case.more
        for case in cases
        for choice in case.choices()[:most]
    ]
    runs = run_missing(run, settings, args, seconds=seconds)
    here = runs[runs.scale == args.scale]
    # Of a case that was stopped nothing is judged.
    cases = [case for case in cases if len(case.of(here)[1]) >= len(case.choices()[:most])]
    settings = [
        case.what | case.chosen(here) | {"seed": seed} | case.more
        for seed in seeds_of(args)
        for case in cases
    ]
    return run_missing(run, settings, args, seconds=seconds) if settings else runs
