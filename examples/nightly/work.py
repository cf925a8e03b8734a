"""The worker of the example, as a process of its own::

    FORGE_TOKEN=... python work.py --server URL --provider URL --spool DIR [--once]

It works until SIGTERM, which drains it. The next worker goes on where it stopped, however it stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys

import agent
from forge_continuity import AsyncForge, Fact
from forge_continuity.session import Session
from forge_continuity.worker import Worker


def observer(kill_at: int):
    """Prints each batch. ``kill_at`` counts reports (two per batch: on disk, and acknowledged) and ends this process there, as
    if the machine had lost power; it is what the demonstration is about and nothing that a worker needs."""
    count = 0

    def tell(stage: str, facts: tuple[Fact, ...]) -> None:
        nonlocal count
        count += 1
        print(f'{count:4} {stage:12} {" ".join(fact.kind for fact in facts)}', flush=True)
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return tell


def effect(what: str) -> None:
    """Every tool that really runs says so, on disk before it does."""
    path = os.environ.get('EFFECTS')
    if path:
        with open(path, 'a', encoding='utf-8') as log:
            log.write(what + '\n')
            log.flush()
            os.fsync(log.fileno())


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument('--server', required=True)
    options.add_argument('--provider', required=True)
    options.add_argument('--spool', required=True)
    options.add_argument('--prompt', default='1.0.0', help='of the prompt catalogue, for runs that have no checkpoint yet')
    options.add_argument('--lease-seconds', type=int, default=120)
    options.add_argument('--once', action='store_true', help='end when there is nothing to claim')
    options.add_argument('--kill-at', type=int, default=0)
    args = options.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format='%(levelname)s %(name)s %(message)s')
    logging.getLogger('httpx').setLevel(logging.WARNING)

    def agent_for(session: Session):
        prompt = session.record['prompt_catalog']['version'] if session.record else args.prompt
        return agent.build(args.provider, prompt), effect

    def result(session: Session, done) -> None:
        print(f'run {session.run_id} is complete: {done.output}', flush=True)

    async with AsyncForge(args.server, os.environ['FORGE_TOKEN']) as forge:
        worker = Worker(forge, agent_for, spool=args.spool, lease_seconds=args.lease_seconds, wait_seconds=5, observer=observer(args.kill_at),
                        on_result=result)
        await worker.run(once=args.once)


if __name__ == '__main__':
    asyncio.run(main())
