"""The digests of docs/FORMATS.md that a client has to compute."""

from __future__ import annotations

import hashlib
import re

SALT_BYTES = 32
_DIGEST = re.compile(r'[0-9a-f]{64}\Z')
_ID = re.compile(r'[A-Za-z0-9._-]{1,64}\Z')
_LABEL = re.compile(r'[A-Za-z0-9._/-]{1,128}\Z')


def tagged(tag: str, *parts: bytes) -> str:
    """Returns SHA-256, in hex, over the tag, a zero byte, and for each part its length (8 bytes, big-endian) and bytes."""
    h = hashlib.sha256(tag.encode('ascii') + b'\0')
    for part in parts:
        h.update(len(part).to_bytes(8, 'big'))
        h.update(part)
    return h.hexdigest()


def blob(salt: bytes, data: bytes) -> str:
    """Returns the salted digest that names content of one run. ``salt`` is the run's 32 bytes: keep it out of logs."""
    if len(salt) != SALT_BYTES:
        raise ValueError(f'a salt has {SALT_BYTES} bytes')
    return tagged('forge.blob/1', salt, data)


def plain(data: bytes) -> str:
    """Returns SHA-256 in hex, for what outsiders compare: wire bytes, sources, reports."""
    return hashlib.sha256(data).hexdigest()


def is_digest(value: object) -> bool:
    """Reports whether ``value`` is 64 lower-case hex digits."""
    return isinstance(value, str) and _DIGEST.match(value) is not None


def is_id(value: object) -> bool:
    """Reports whether ``value`` is an id: 1 to 64 of ``A-Z a-z 0-9 . _ -``, and neither ``.`` nor ``..``."""
    return isinstance(value, str) and _ID.match(value) is not None and value not in ('.', '..')


def is_label(value: object) -> bool:
    """Reports whether ``value`` is a label: 1 to 128 of ``A-Z a-z 0-9 . _ / -``, a name that is quoted from elsewhere."""
    return isinstance(value, str) and _LABEL.match(value) is not None
