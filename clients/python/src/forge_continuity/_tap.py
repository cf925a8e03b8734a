"""The provider SDK's own HTTP transport, with the bytes of each model request seen on both sides of it.

The SDKs use httpx or httpx2, which have the same shape, so the tap is made for whichever library the transport belongs to. A
request that no recorded turn is waiting for passes through untouched.
"""

from __future__ import annotations

import asyncio
import sys
from contextvars import ContextVar
from typing import Any, AsyncIterator, Protocol

from .errors import Stopped


class Exchange(Protocol):
    """What the tap asks of the turn that is being recorded. ``stream`` is set to an open stream, whose ``aclose`` returns when its
    end is recorded."""

    stream: Any

    async def leaving(self, body: bytes) -> bytes | None:
        """Called with the wire bytes before they leave. Returns a retained response to answer with instead of sending."""

    async def arrived(self, body: bytes, *, partial: bool) -> None:
        """Called with the raw bytes of a response, before anything looks at them."""

    def refused(self, status: int, body: bytes) -> None:
        """Called when the provider answered with an error."""


current: ContextVar[Exchange | None] = ContextVar('forge_exchange', default=None)
"""The exchange that the next request of this task belongs to."""

_TAPPED = '_forge_tapped'


def http_clients(model: Any) -> list[Any]:
    """Returns the async HTTP clients that a model's requests go through; none for models that use no HTTP here."""
    wrapped = getattr(model, 'wrapped', None)
    if wrapped is not None:
        return http_clients(wrapped)
    if isinstance(getattr(model, 'models', None), (list, tuple)):
        return [client for one in model.models for client in http_clients(one)]
    sdk = getattr(model, 'client', None)
    found = []
    for owner, name in ((sdk, '_client'), (getattr(sdk, '_api_client', None), '_async_httpx_client')):
        client = getattr(owner, name, None)
        if client is not None and hasattr(client, '_transport') and hasattr(client, 'send'):
            found.append(client)
    return found


def tap(model: Any) -> None:
    """Puts the tap into a model's HTTP clients, once. A retry inside the SDK would be a second request under one intent, so the
    SDK's own retries are switched off; the tap refuses one in any case."""
    clients = http_clients(model)
    if not clients:
        raise Stopped('model_unsupported', 'The wire bytes of this model cannot be seen.', {'model': type(model).__name__})
    for client in clients:
        if not getattr(client, _TAPPED, False):
            client._transport = _tapped(client._transport)
            client._mounts = {pattern: t and _tapped(t) for pattern, t in client._mounts.items()}
            setattr(client, _TAPPED, True)
    sdk: Any = getattr(model, 'client', None)
    if isinstance(getattr(sdk, 'max_retries', None), int):
        sdk.max_retries = 0


def _tapped(inner: Any) -> Any:
    base = next((c for c in type(inner).__mro__ if c.__name__ == 'AsyncBaseTransport'), None)
    if base is None:
        raise Stopped('model_unsupported', 'The HTTP client of this model has an unknown transport.', {'transport': type(inner).__name__})
    library = sys.modules[base.__module__.partition('.')[0]]
    return _make(base, library)(inner)


def _make(base: type, library: Any) -> type:
    class Tap(base):  # type: ignore[misc]
        def __init__(self, inner: Any):
            self.inner = inner

        async def handle_async_request(self, request: Any) -> Any:
            exchange = current.get()
            if exchange is None:
                return await self.inner.handle_async_request(request)
            body = await request.aread()
            retained = await exchange.leaving(body)
            if retained is not None:
                return library.Response(200, headers=_headers(retained), content=retained)
            request.headers['accept-encoding'] = 'identity'  # what is kept is what was received, and should be readable
            response = await self.inner.handle_async_request(request)
            if response.status_code >= 300:
                data = await _drain(response)
                exchange.refused(response.status_code, data)
                return library.Response(response.status_code, headers=response.headers, content=data)
            if response.headers.get('content-type', '').startswith('text/event-stream'):
                return library.Response(response.status_code, headers=response.headers, stream=Kept(response, exchange),
                                        extensions=response.extensions)
            received = bytearray()
            try:
                async for chunk in response.stream:
                    received += chunk
            except BaseException:
                if received:
                    await exchange.arrived(bytes(received), partial=True)
                raise
            finally:
                await response.aclose()
            await exchange.arrived(bytes(received), partial=False)
            return library.Response(response.status_code, headers=response.headers, content=bytes(received),
                                    extensions=response.extensions)

        async def aclose(self) -> None:
            await self.inner.aclose()

    class Kept(library.AsyncByteStream):  # type: ignore[misc]
        """A stream that is kept before its end is told: the SDK cannot finish a response that is not recorded."""

        def __init__(self, response: Any, exchange: Exchange):
            self.response, self.exchange = response, exchange
            self.chunks = response.stream.__aiter__()
            self.received = bytearray()
            self.partial = False
            self.ending: asyncio.Task[None] | None = None
            exchange.stream = self

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self.chunks:
                    self.received += chunk
                    yield chunk
            except GeneratorExit:  # the reader has enough; aclose reads the rest
                raise
            except BaseException:
                self.partial = True
                await self.aclose()
                raise
            await self.aclose()

        async def aclose(self) -> None:
            """Ends the stream, once, and returns when its end is recorded. An SDK may close it from several tasks."""
            if self.ending is None:
                self.ending = asyncio.ensure_future(self._end())
            await asyncio.shield(self.ending)

        async def _end(self) -> None:
            try:
                # An SDK stops reading after the event that ends a response, which need not be the last byte.
                if not self.partial:
                    async for chunk in self.chunks:
                        self.received += chunk
            except Exception:
                self.partial = True
            try:
                if self.received or not self.partial:
                    await self.exchange.arrived(bytes(self.received), partial=self.partial)
            finally:
                await self.response.aclose()

    return Tap


async def _drain(response: Any) -> bytes:
    try:
        return b''.join([chunk async for chunk in response.stream])
    finally:
        await response.aclose()


def _headers(body: bytes) -> dict[str, str]:
    headers = {'content-type': 'text/event-stream' if body.lstrip()[:6] in (b'data: ', b'event:') or body.startswith(b':') else 'application/json'}
    if body[:2] == b'\x1f\x8b':
        headers['content-encoding'] = 'gzip'
    return headers
