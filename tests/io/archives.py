"""Helpers that change the files of `dump`."""

import json
import zipfile


def rewritten(path, change, compression=zipfile.ZIP_STORED):
    """Rewrite a zip file after `change` was applied to its members, a dict of bytes."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def change_nodes(change):
    """Return a change of members that calls `change` for each dict of the JSON description."""

    def walk(node):
        if isinstance(node, dict):
            change(node)
        for value in node.values() if isinstance(node, dict) else node:
            if isinstance(value, dict | list):
                walk(value)

    def change_members(members):
        schema = json.loads(members["schema.json"])
        walk(schema)
        members["schema.json"] = json.dumps(schema).encode()

    return change_members


def with_node(name, node):
    """Return a change of members that replaces each entry of this name by a node."""

    def change(each):
        if "__loader__" in (each.get(name) or {}):
            each[name] = node

    return change_nodes(change)
