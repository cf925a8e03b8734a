from __future__ import annotations

import os
from typing import Any, Iterator
from urllib.parse import urlsplit

import pytest

from forge_server import Factory, Server

STORES = ['sqlite'] + (['postgres'] if os.environ.get('FORGE_TEST_DATABASE_URL') else [])


@pytest.fixture(scope='session', params=STORES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server on each store that there is."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == 'sqlite':
        store = ['--store', str(folder / 'forge.db')]
    else:
        name = urlsplit(os.environ['FORGE_TEST_DATABASE_URL']).path
        assert name.endswith('_test'), 'the tests use only a database whose name ends in _test'
        store = ['--database-url', os.environ['FORGE_TEST_DATABASE_URL']]  # its password is in PGPASSWORD
    one = Server(folder, store).start()
    yield one
    one.stop()


@pytest.fixture
def factory(server: Server) -> Factory:
    """A new factory on it."""
    return server.factory()


@pytest.fixture(scope='module')
def field(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A factory with a provider and workers."""
    from agents import Field
    one = Field(server.factory(), tmp_path_factory.mktemp('field'))
    yield one
    one.close()
