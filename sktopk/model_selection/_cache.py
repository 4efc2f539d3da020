"""Results on disk, a small JSON file each, named by a fingerprint of all they depend on."""

import json
import os
from pathlib import Path

from sktopk._common._atomic_file import write_atomically
from sktopk._common._fingerprints import versions


class RunCache:
    """A folder of results.

    A kill leaves no file half written. One that cannot be read counts as missing.

    Parameters
    ----------
    folder : str or Path
        Made if it is missing.
    """

    def __init__(self, folder):
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"cache must be a folder, str or Path, or None; got {folder!r}")
        self.versions, self.folder = versions(), Path(folder)
        if self.folder.is_file():
            raise ValueError(f"cache must be a folder; got the file {folder}")
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key):
        """Return what was stored under `key`, a dict, or None."""
        try:
            entry = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return entry["result"] if isinstance(entry, dict) and entry.get("key") == key else None

    def put(self, key, result, about):
        """Store `result` with a note for readers `about` what it is; both plain dicts."""
        entry = {"key": key, "result": result, "about": about}
        text = json.dumps(entry, indent=1, default=str)
        write_atomically(self.folder / f"{key}.json", [text.encode()])
