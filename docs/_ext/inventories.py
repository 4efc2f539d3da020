"""Inventories of other projects' documentation for builds without internet."""

import zlib
from collections import defaultdict
from pathlib import Path

HEADER = (
    "# Sphinx inventory version 2\n# Project: {name}\n# Version: \n"
    "# The remainder of this file is compressed using zlib.\n"
)


def write_inventories(table, folder):
    """Return the intersphinx mapping of the projects in `table`.

    `table` is a file. A line with two words has a project and its address. A line with four words
    has a project, a role, an object and the page of this object. The objects of each project are
    written as an inventory into `folder`. Intersphinx uses it if it cannot fetch the original.
    """
    addresses, objects = {}, defaultdict(list)
    for line in Path(table).read_text().splitlines():
        words = line.split()
        if len(words) == 2:
            addresses[words[0]] = words[1]
        elif len(words) == 4:
            project, role, name, page = words
            objects[project].append(f"{name} {role} 1 {page} -\n")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, address in addresses.items():
        path = folder / f"{project}.inv"
        lines = "".join(sorted(objects[project]))
        path.write_bytes(HEADER.format(name=project).encode() + zlib.compress(lines.encode()))
        mapping[project] = (address, (None, str(path)))
    return mapping
