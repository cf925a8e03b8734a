"""Makes src/forge_continuity/_sync.py from _async.py. With --check it only compares, and exits 1 on a difference."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / 'src' / 'forge_continuity'

WORDS = [
    (r'contextlib\.asynccontextmanager', 'contextlib.contextmanager'),
    (r'AsyncIterator', 'Iterator'),
    (r'Callable\[\[\], Awaitable\[Any\]\]', 'Callable[[], Any]'),
    (r'AsyncForge', 'Forge'),
    (r'httpx\.Async(\w+)', r'httpx.\1'),
    (r'\b__aenter__\b', '__enter__'),
    (r'\b__aexit__\b', '__exit__'),
    (r'\baclose\b', 'close'),
    (r'\baiter_bytes\b', 'iter_bytes'),
    (r'\baread\b', 'read'),
    (r'\basync (def|with|for)\b', r'\1'),
    (r'\bawait ', ''),
    (r'Awaitable, ', ''),
    (r'Safe to share between tasks', 'Safe to share between threads'),
    (r'``_sync\.py`` is made from this file by ``unasync\.py``\.', 'Made from ``_async.py`` by ``unasync.py``: do not edit.'),
]


def sync(text: str) -> str:
    for pattern, word in WORDS:
        text = re.sub(pattern, word, text)
    return text.replace('from typing import Any, Iterator, Callable,', 'from typing import Any, Callable, Iterator,')


def main() -> int:
    wanted = sync((HERE / '_async.py').read_text(encoding='utf-8'))
    target = HERE / '_sync.py'
    if '--check' in sys.argv:
        same = target.exists() and target.read_text(encoding='utf-8') == wanted
        if not same:
            print('_sync.py is not what unasync.py makes', file=sys.stderr)
        return 0 if same else 1
    target.write_text(wanted, encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())
