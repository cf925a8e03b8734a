"""The worker's own memory: what it is about to report, on disk before it is sent.

A spool is a folder. Each claim that the worker makes has a folder in it, made before the claim is sent, with one file:

* ``claim.json``: run id, claim id and what was asked for, written whole or not at all;
* ``log``: one entry after the other, each a line of JSON and then the bytes of its blobs.

An entry is either a batch (``{"command_id", "fence", "facts", "blobs": [{"digest", "size"}]}``) or the note that a batch was
answered (``{"answered": id, "with": "accepted" or the refusal's code}``). A batch is synced to disk before it is sent; a note is
not, since reading a batch twice is harmless: the server answers an identical repeat with the saved receipt. An entry that
a crash cut short is the last one and was never sent.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from .types import Fact

_NO_FSYNC = os.environ.get('FORGE_SPOOL_WITHOUT_FSYNC') == '1'  # for measuring what the syncs cost, never for work


@dataclass(frozen=True)
class Batch:
    """What one command reports, with the content that its facts name, by digest."""

    command_id: str
    fence: int
    facts: tuple[Fact, ...]
    blobs: Mapping[str, bytes] = field(default_factory=dict)


class ClaimSpool:
    """The spool of one claim. Not for use by two processes at once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / 'claim.json').read_bytes())
        self._log: Any = None

    @property
    def run_id(self) -> str:
        return str(self.about['run_id'])

    @property
    def claim_id(self) -> str:
        return str(self.about['claim_id'])

    def write(self, batch: Batch) -> None:
        """Keeps a batch. When this returns, it is on disk."""
        head = {'command_id': batch.command_id, 'fence': batch.fence, 'facts': [{'data': f.data, 'kind': f.kind} for f in batch.facts],
                'blobs': [{'digest': name, 'size': len(data)} for name, data in batch.blobs.items()]}
        self._append([json.dumps(head, separators=(',', ':')).encode('ascii') + b'\n', *batch.blobs.values()], sync=True)

    def answered(self, command_id: str, how: str = 'accepted') -> None:
        """Notes that a batch needs no more sending."""
        self._append([json.dumps({'answered': command_id, 'with': how}, separators=(',', ':')).encode('ascii') + b'\n'], sync=False)

    def _append(self, pieces: list[bytes], *, sync: bool) -> None:
        if self._log is None:
            _, whole = self._read()
            self._log = open(self.folder / 'log', 'ab')
            self._log.truncate(whole)  # drop an entry that a crash cut short: it was never sent
            _sync_folder(self.folder)
        self._log.write(b''.join(pieces))
        self._log.flush()
        if sync and not _NO_FSYNC:
            os.fsync(self._log.fileno())

    def _read(self) -> tuple[list[tuple[dict[str, Any], dict[str, bytes]]], int]:
        """Returns the whole entries and the length of the log that they make up."""
        try:
            data = (self.folder / 'log').read_bytes()
        except FileNotFoundError:
            return [], 0
        entries: list[tuple[dict[str, Any], dict[str, bytes]]] = []
        whole = 0
        while (end := data.find(b'\n', whole)) >= 0:
            try:
                head = json.loads(data[whole:end])
            except ValueError:
                break
            at, blobs = end + 1, {}
            for one in head.get('blobs', ()):
                blobs[one['digest']] = data[at:at + one['size']]
                at += one['size']
            if at > len(data):
                break
            whole = at
            entries.append((head, blobs))
        return entries, whole

    def pending(self) -> list[Batch]:
        """Returns the batches that were kept and not answered, in order: what the server may not have."""
        batches: dict[str, Batch] = {}
        for head, blobs in self._read()[0]:
            if 'answered' in head:
                batches.pop(head['answered'], None)
            else:
                facts = tuple(Fact(one['kind'], one['data']) for one in head['facts'])
                batches[head['command_id']] = Batch(head['command_id'], head['fence'], facts, blobs)
        return list(batches.values())

    def count(self) -> int:
        """Returns how many batches were ever kept, so that the next one gets an id of its own."""
        return sum('answered' not in head for head, _ in self._read()[0])

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def remove(self) -> None:
        """Forgets a claim that is over and has nothing pending."""
        self.close()
        shutil.rmtree(self.folder)

    def keep(self) -> None:
        """Sets a claim aside that is over and still has something pending. It is evidence for a reconciliation and nothing
        sends it again; a person may remove it."""
        self.close()
        lost = self.folder.parent / 'lost'
        lost.mkdir(exist_ok=True)
        self.folder.rename(lost / self.folder.name)


class Spool:
    """A worker's folder of claims."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def new_claim(self, run_id: str, *, lease_seconds: int, pool: str = '') -> ClaimSpool:
        """Makes the id of a claim and keeps it. When this returns, it is on disk; then the claim may be sent."""
        claim_id = 'claim-' + secrets.token_hex(12)
        folder = self.folder / claim_id
        making = self.folder / f'.{claim_id}'
        making.mkdir()
        with open(making / 'claim.json', 'wb') as out:
            out.write(json.dumps({'run_id': run_id, 'claim_id': claim_id, 'lease_seconds': lease_seconds, 'pool': pool}).encode('ascii'))
            out.flush()
            os.fsync(out.fileno())
        making.rename(folder)
        _sync_folder(self.folder)
        return ClaimSpool(folder)

    def claims(self) -> list[ClaimSpool]:
        """Returns the claims that an earlier process of this worker left."""
        return [ClaimSpool(path.parent) for path in sorted(self.folder.glob('claim-*/claim.json'))]


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
