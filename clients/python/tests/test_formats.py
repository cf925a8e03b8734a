"""The formats that a client computes, against the vectors that the Go implementation wrote."""

import base64
import json
import subprocess
import sys

import pytest

from forge_continuity import canonical, digest
from forge_server import ROOT

VECTORS = json.loads((ROOT / 'fixtures/vectors/formats.json').read_text(encoding='utf-8'))


def test_canonical_json():
    for one in VECTORS['canon']:
        assert canonical.encode(canonical.decode(one['json'])).decode() == one['canonical']


@pytest.mark.parametrize('text', VECTORS['refused_json'])
def test_refused_json(text):
    with pytest.raises(ValueError):
        canonical.encode(canonical.decode(text))


def test_digests():
    for one in VECTORS['tagged']:
        assert digest.tagged(one['tag'], *(base64.b64decode(p) for p in one['parts_base64'])) == one['digest']
    for one in VECTORS['blobs']:
        assert digest.blob(bytes.fromhex(one['salt_hex']), base64.b64decode(one['data_base64'])) == one['digest']
    for one in VECTORS['named']:
        assert digest.tagged(one['tag'], *(base64.b64decode(p) for p in one['parts_base64'])) == one['digest']
    for one in VECTORS['ids']:
        assert digest.is_id(one['id']) == one['valid'], one


def test_records_are_what_cpython_writes():
    for text in (ROOT / 'fixtures/recordings/held-2.55.0').glob('checkpoint-*.json'):
        data = text.read_bytes()
        assert canonical.record(canonical.read_record(data)) == data
        with pytest.raises(ValueError):
            canonical.read_record(data.replace(b',', b', ', 1))


def test_difference_keeps_types():
    for a, b in ((1, 1.0), (1, True), (0, False), (None, 'x'), ({'a': None}, {}), ([1], [1, 2]), ('1', 1)):
        assert canonical.difference(a, b)
        assert canonical.difference({'x': [a]}, {'x': [b]}).startswith('.x[0]')
    assert canonical.difference({'a': [1, {'b': 'c'}]}, {'a': [1, {'b': 'c'}]}) is None


def test_sync_face_is_generated():
    assert subprocess.run([sys.executable, str(ROOT / 'clients/python/unasync.py'), '--check']).returncode == 0
