"""What recording costs per step: the agent of examples/nightly to its end, with the capability and without it.

    ./task bench:python     (or: FORGE_BIN=... FORGE_STUB_BIN=... python overhead.py [--database-url URL] [--runs N])

Both run in this process against the same scripted provider on loopback, whose answers cost nothing, with the same tools and
commands. A step is one model request with everything that follows from it. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / 'src'), str(HERE / 'tests'), str(HERE.parent.parent / 'examples' / 'nightly')]
sys.dont_write_bytecode = True

import agent  # noqa: E402
import agents  # noqa: E402
from forge_continuity import AsyncForge  # noqa: E402
from forge_continuity.worker import Worker  # noqa: E402
from forge_server import Server  # noqa: E402

STEPS = 10


class NoCommand:
    """Stands for ``command`` where nobody records."""

    def __init__(self, text: str):
        pass

    async def __aenter__(self) -> 'NoCommand':
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def finish(self, code: int, receipt: object) -> None:
        pass


async def plain(base_url: str) -> float:
    one = agent.build(base_url, '1.0.1', forge=False)
    read = agent.recorded.read_run_evidence

    async def answer(ctx: object, **query: object) -> object:  # what the capability's guard does
        try:
            return await read(ctx, **query)  # type: ignore[arg-type]
        except ValueError:
            return agent.recorded.INVALID_QUERY

    real, agent.command = agent.command, NoCommand  # type: ignore[assignment]
    agent.recorded.read_run_evidence = answer  # type: ignore[assignment]
    began = time.perf_counter()
    try:
        await one.run(agent.TASK, deps=lambda _: None)
    finally:
        agent.command, agent.recorded.read_run_evidence = real, read
    return time.perf_counter() - began


async def recorded(field: agents.Field, folder: Path) -> tuple[float, int]:
    count = 0

    def observer(stage: str, facts: object) -> None:
        nonlocal count
        count += stage == 'acknowledged'

    run = await asyncio.to_thread(field.register)
    one = agent.build(field.stub.base_url, '1.0.1')
    async with AsyncForge(field.factory.server.url, field.factory.tokens['worker']) as forge:
        worker = Worker(forge, lambda _: (one, lambda what: None), spool=folder / run, observer=observer)
        began = time.perf_counter()
        await worker.take(run)
        took = time.perf_counter() - began
        assert (await forge.run(run))['position'] == 'completed'
    return took, count


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument('--database-url')
    options.add_argument('--runs', type=int, default=5)
    args = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix='forge-overhead-'))
    store = ['--database-url', args.database_url] if args.database_url else ['--store', str(folder / 'forge.db')]
    server = Server(folder, store).start()
    field = agents.Field(server.factory(), folder)
    try:
        without, with_it, batches = [], [], 0
        for i in range(args.runs + 1):  # the first of each warms up
            a = await plain(field.stub.base_url) if i % 2 else 0.0
            b, batches = await recorded(field, folder)
            a = a or await plain(field.stub.base_url)
            if i:
                without.append(a), with_it.append(b)
        a, b = statistics.median(without), statistics.median(with_it)
        print(json.dumps({
            'store': 'postgres' if args.database_url else 'sqlite', 'pydantic_ai': version('pydantic-ai-slim'), 'runs': args.runs, 'steps': STEPS,
            'batches': batches, 'ms_per_step_without': round(1000 * a / STEPS, 1), 'ms_per_step_with': round(1000 * b / STEPS, 1), 'ratio': round(b / a, 2),
            'ms_per_batch': round(1000 * (b - a) / batches, 2)}))
    finally:
        field.close()
        server.stop()


if __name__ == '__main__':
    asyncio.run(main())
