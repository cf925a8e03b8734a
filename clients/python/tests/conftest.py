from __future__ import annotations

import os
from typing import Any, Iterator
from urllib.parse import urlsplit

import pytest

from forge_server import Factory, Server

STORES = [one for one in os.environ.get('FORGE_TEST_STORES', 'sqlite postgres').split()
          if one != 'postgres' or os.environ.get('FORGE_TEST_DATABASE_URL')]


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The short form leaves PostgreSQL to tests that are about the store, and every form keeps what shares a server or a field in
    one process."""
    left = []
    for item in items:
        chosen = item.callspec.params if hasattr(item, 'callspec') else {}
        store = chosen.get('server', '')
        item.add_marker(pytest.mark.xdist_group(f'{item.path.stem}-{store}-{chosen.get("part", 0)}'))
        if os.environ.get('FORGE_LONG') != '1' and store == 'postgres' and item.get_closest_marker('one_store'):
            left.append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


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
