"""The page and the figure of a results file."""

import json

import pandas as pd


def read(path):
    """The lines of a results file; of one that a kill broke off nothing is left."""
    lines = path.read_text().splitlines() if path.is_file() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return pd.DataFrame(found)


def write_report(path):
    raise NotImplementedError
