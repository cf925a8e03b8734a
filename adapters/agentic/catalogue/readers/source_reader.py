"""The source reader behind list_files: names only, nothing is opened and nothing is written.

This file is the published reader: its SHA-256 is the reader's identity in the catalogue.
"""

from pathlib import Path

MAX_ENTRIES = 1000


def list_files(root: Path, path: str) -> list[str]:
    """Names in the folder `path` below `root`, sorted by code point, folders with a trailing slash.

    Raises ValueError when `path` leaves the root, is no folder, or holds more than MAX_ENTRIES names.
    """
    base = root.resolve()
    folder = (base / path).resolve()
    if folder != base and base not in folder.parents:
        raise ValueError('path leaves the source tree')
    if not folder.is_dir():
        raise ValueError('path is not a folder')
    names = sorted(entry.name + '/' * entry.is_dir() for entry in folder.iterdir())
    if len(names) > MAX_ENTRIES:
        raise ValueError('folder holds too many names')
    return names
