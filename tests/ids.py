"""Names of cases that are the same in every process."""

import re


def without_address(value):
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
