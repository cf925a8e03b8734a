"""The two JSON forms of docs/FORMATS.md.

``forge-cjson/1`` is what Forge itself writes: RFC 8785 order and strings, integers within int64, nothing else that is a
number. A *record* (a checkpoint) is text exactly as CPython's ``json.dumps`` writes it with sorted members, so that history
inside loads in the SDK that wrote it.
"""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 128
"""The deepest nesting in forge-cjson/1."""

_INT64 = 2**63


def encode(value: Any) -> bytes:
    """Returns the one forge-cjson/1 spelling of ``value``.

    Raises ``ValueError`` for what has none: a float, an integer outside int64, a NUL, a lone surrogate, a member name that
    is no text, nesting over 128.
    """
    return _encode(value, 0).encode('utf-8')


def _encode(value: Any, depth: int) -> str:
    if value is None:
        return 'null'
    if value is True:
        return 'true'
    if value is False:
        return 'false'
    if isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            raise ValueError('an integer is outside int64')
        return str(int(value))
    if isinstance(value, str):
        return _text(value)
    if depth >= MAX_DEPTH:
        raise ValueError(f'nesting over {MAX_DEPTH}')
    if isinstance(value, (list, tuple)):
        return '[' + ','.join(_encode(one, depth + 1) for one in value) + ']'
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise ValueError('a member name is no text')
        names = sorted(value, key=lambda name: name.encode('utf-16-be', 'surrogatepass'))
        return '{' + ','.join(_text(name) + ':' + _encode(value[name], depth + 1) for name in names) + '}'
    raise ValueError(f'{type(value).__name__} has no spelling in forge-cjson/1')


def _text(value: str) -> str:
    if '\0' in value:
        raise ValueError('a text has a NUL')
    try:
        value.encode('utf-8')
    except UnicodeEncodeError:
        raise ValueError('a text has a lone surrogate') from None
    return json.dumps(value, ensure_ascii=False)


def decode(text: bytes | str) -> Any:
    """Reads JSON as strictly as the server does; the text need not be canonical. Raises ``ValueError``."""
    if isinstance(text, bytes):
        text = text.decode('utf-8')
    value = json.loads(text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_refuse, parse_constant=_refuse)
    encode(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError('a member is there twice')
    return out


def _integer(text: str) -> int:
    if text == '-0':
        raise ValueError('-0 is not an integer here')
    return int(text)


def _refuse(text: str) -> Any:
    raise ValueError(f'{text} is not an integer')


def record(value: Any) -> bytes:
    """Returns the record form of ``value``. Raises ``ValueError`` for NaN and infinities."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(',', ':'), allow_nan=False).encode('ascii')


def stored(value: Any) -> Any:
    """Returns the value as it comes back from a record: members sorted, tuples as lists. What the model sees has to be
    what was stored, or a resumed run would send other bytes than the run that never stopped."""
    return json.loads(record(value))


def read_record(text: bytes) -> Any:
    """Reads a record. Raises ``ValueError`` if the text is not in the record form to the byte."""
    value = json.loads(text)
    if record(value) != text:
        raise ValueError('the record is not canonical')
    return value


def difference(a: Any, b: Any, path: str = '') -> str | None:
    """Returns the path of the first place where two JSON values differ in type or value, ``None`` if they are equal."""
    if type(a) is not type(b):
        return path or '.'
    if isinstance(a, dict):
        for name in sorted(a.keys() | b.keys()):
            if name not in a or name not in b:
                return f'{path}.{name}'
            found = difference(a[name], b[name], f'{path}.{name}')
            if found:
                return found
        return None
    if isinstance(a, list):
        for i, (one, other) in enumerate(zip(a, b)):
            found = difference(one, other, f'{path}[{i}]')
            if found:
                return found
        return None if len(a) == len(b) else f'{path}[{min(len(a), len(b))}]'
    return None if a == b else (path or '.')
