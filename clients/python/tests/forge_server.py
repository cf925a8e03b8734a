"""A real `forge serve`, a real provider stub, and a proxy in front of either that counts, cuts and goes away."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from forge_continuity import Forge

ROOT = Path(__file__).resolve().parents[3]
FORGE = os.environ['FORGE_BIN']
STUB = os.environ['FORGE_STUB_BIN']


def free_port() -> int:
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return int(s.getsockname()[1])


class Server:
    """One server over one store, which can be stopped and started again on the same address."""

    def __init__(self, folder: Path, store: list[str], env: dict[str, str] | None = None):
        self.folder, self.store, self.port = folder, store, free_port()
        self.env = {**os.environ, **(env or {})}
        self.url = f'http://127.0.0.1:{self.port}'
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> 'Server':
        log = open(self.folder / 'serve.log', 'ab')
        self.process = subprocess.Popen(
            [FORGE, 'serve', *self.store, '--listen', f'127.0.0.1:{self.port}'], stdout=log, stderr=log, env=self.env)
        log.close()
        until = time.monotonic() + 300  # the first start compiles the guest
        while True:
            try:
                with socket.create_connection(('127.0.0.1', self.port), timeout=1) as s:
                    s.sendall(b'GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
                    if b' 200 ' in s.recv(200):
                        return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError('forge serve did not start:\n' + (self.folder / 'serve.log').read_text())
            time.sleep(0.05)

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait(40)
            self.process = None

    def factory(self, name: str | None = None) -> 'Factory':
        name = name or 'f-' + secrets.token_hex(6)
        made = subprocess.run([FORGE, 'factory', 'create', name, '--administrator', 'ada', '--fixture', *self.store],
                              check=True, capture_output=True, text=True, env=self.env)
        return Factory(self, name, made.stdout.strip())


class Factory:
    """A fixture factory with an operator who is administrator too, and two workers."""

    def __init__(self, server: Server, name: str, token: str):
        self.server, self.name = server, name
        self.tokens = {'ada': token}
        self.admin = Forge(server.url, token)
        self.admin.put_principal('ada-roles', 'ada', ['administrator', 'operator', 'reader'], replaces=1)
        for who, roles in (('worker', ['worker']), ('second', ['worker']), ('reader', ['reader']), ('oda', ['operator'])):
            self.admin.put_principal(f'make-{who}', who, roles)
            self.tokens[who] = self.admin.issue_token(who, 86400)['token']

    def client(self, who: str, url: str | None = None, **options: Any) -> Forge:
        return Forge(url or self.server.url, self.tokens[who], **options)

    def enable(self, window: int = 600) -> None:
        self.admin.put_profile('profile', {'id': 'fixture', 'fixture': True, 'qualifications': [], **self.admin.factory()['host']})
        policy = self.admin.policy()
        policy.pop('policy_digest')
        self.admin.put_policy({**policy, 'enabled': True, 'max_valid_for_seconds': window})  # type: ignore[typeddict-item]

    def record(self, kind: str, name: str, digest: str) -> dict[str, Any]:
        """Sets a record once and returns it as a run freezes it."""
        for one in self.admin.factory()['records'] or []:
            if (one['kind'], one['name'], one['digest']) == (kind, name, digest):
                return {'record': name, 'revision': one['revision'], 'digest': digest}
        made = self.admin.put_record(f'{kind}-{secrets.token_hex(6)}', kind, name, digest)
        return {'record': name, 'revision': made['revision'], 'digest': digest}


class Stub:
    """The scripted provider, behind a proxy with a fixed address that counts requests."""

    def __init__(self, variant: str = ''):
        self.process = subprocess.Popen([STUB, '-listen', '127.0.0.1:0', '-variant', variant], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        url = self.process.stdout.readline().strip()
        self.proxy = Proxy(int(re.search(r':(\d+)/', url).group(1)))  # type: ignore[union-attr]
        self.base_url = f'http://127.0.0.1:{self.proxy.port}/v1'

    @property
    def calls(self) -> int:
        return self.proxy.requests

    def close(self) -> None:
        self.proxy.close()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


class Proxy:
    """A TCP proxy in a thread of its own. Each answer may be cut, and for a while it may refuse every connection."""

    def __init__(self, target: int, port: int = 0):
        self.target = target
        self.requests = 0
        self.seen: list[bytes] = []
        self.keys: dict[str, int] = {}  # requests by bearer token
        self.cut_answers = 0       # so many of the next answers to PUT and POST are lost after the server has acted
        self.away = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, '127.0.0.1', port), self._loop).result()
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.url = f'http://127.0.0.1:{self.port}'

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.away:
            writer.transport.abort()
            return
        try:
            back, out = await asyncio.open_connection('127.0.0.1', self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, out}
        lose = False

        async def forward() -> None:
            nonlocal lose
            while True:
                head = await _head(reader)
                if not head:
                    break
                self.requests += 1
                self.seen.append(head.split(b'\r\n', 1)[0])
                key = re.search(rb'(?i)\r\nauthorization: bearer ([^\r]+)', head)
                if key:
                    name = key.group(1).decode()
                    self.keys[name] = self.keys.get(name, 0) + 1
                if self.cut_answers and head.split(b' ', 1)[0] in (b'PUT', b'POST'):
                    self.cut_answers -= 1
                    lose = True
                out.write(head)
                length = re.search(rb'(?i)\r\ncontent-length: *(\d+)', head)
                left = int(length.group(1)) if length else 0
                while left:
                    data = await reader.read(min(left, 1 << 16))
                    if not data:
                        break
                    out.write(data)
                    left -= len(data)
                await out.drain()
            out.close()

        async def answer() -> None:
            while data := await back.read(1 << 16):
                if lose:
                    writer.transport.abort()
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        await asyncio.gather(forward(), answer(), return_exceptions=True)
        for one in (writer, out):
            one.transport.abort()
        self._writers -= {writer, out}

    def go_away(self) -> None:
        """Drops every connection and refuses new ones."""
        self.away = True
        self._loop.call_soon_threadsafe(lambda: [w.transport.abort() for w in list(self._writers)])

    def come_back(self) -> None:
        self.away = False

    def close(self) -> None:
        self.go_away()
        self._loop.call_soon_threadsafe(self._server.close)
        time.sleep(0.02)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b'\r\n\r\n')
    except (asyncio.IncompleteReadError, ConnectionError):
        return b''

