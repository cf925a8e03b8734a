"""Starts worker processes quickly: everything is imported once, and each worker is a fork.

Reads one JSON line for each worker, answers its process id, and answers exit codes on request. A worker is the real loop of
``forge_continuity.worker`` with the agent of examples/nightly. It writes ``points`` (each report, on disk and acknowledged) and
``effects`` (each tool that really ran) for its run, and can kill itself at a point.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / 'examples' / 'nightly'))
sys.dont_write_bytecode = True

import agent  # noqa: E402
from forge_continuity import AsyncForge, Fact  # noqa: E402
from forge_continuity.session import Session  # noqa: E402
from forge_continuity.worker import Worker  # noqa: E402


def write(path: Path, line: str) -> None:
    with open(path, 'a', encoding='utf-8') as out:
        out.write(line + '\n')


async def work(o: dict[str, Any]) -> None:
    folder, count, acknowledged = Path(o['folder']), 0, []

    def observer(stage: str, facts: tuple[Fact, ...]) -> None:
        nonlocal count
        count += 1
        label = f'{stage} {" ".join(fact.kind for fact in facts)}'
        run = worker.session.run_id if worker.session else o.get('run', '')
        write(folder / f'{run}.points', label)
        acknowledged[:] = [label]
        if count == o.get('kill_at') or label == o.get('kill_label'):
            os.kill(os.getpid(), signal.SIGKILL)

    def agent_for(session: Session) -> Any:
        def effect(what: str) -> None:
            write(folder / f'{session.run_id}.effects', what)

        prompt = session.record['prompt_catalog']['version'] if session.record else o['prompt']
        return agent.build(o['provider'], prompt, key=session.run_id), effect

    if 'lose' in o:
        async def lose(*_: Any, **__: Any) -> Any:
            """The read begins, its sibling's result is kept, and then its own cannot be."""
            while not any('call.returned' in one for one in acknowledged):
                await asyncio.sleep(0.01)
            raise OSError(o['lose'])

        agent.recorded.read_run_evidence = lose  # type: ignore[assignment]

    async with AsyncForge(o['server'], o['token']) as forge:
        worker = Worker(forge, agent_for, spool=o['spool'], lease_seconds=o.get('lease', 60), wait_seconds=1, observer=observer,
                        drain_seconds=o.get('drain', 60))
        if 'take' not in o:
            await worker.run(once=o.get('once', True))
        for run in o.get('take', ()):
            await worker.take(run)


def child(o: dict[str, Any]) -> None:
    code = 1
    try:
        code = run(o)
    finally:
        os._exit(code)  # never back into the loop below


def run(o: dict[str, Any]) -> int:
    log = os.open(Path(o['folder']) / 'workers.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    logging.basicConfig(level=logging.INFO, format='%(process)d %(levelname)s %(name)s %(message)s', force=True)
    logging.getLogger('httpx').setLevel(logging.WARNING)
    logging.getLogger('httpx2').setLevel(logging.WARNING)
    try:
        asyncio.run(work(o))
    except BaseException:
        logging.exception('worker failed')
        return 1
    return 0


def main() -> None:
    for line in sys.stdin:
        o = json.loads(line)
        if 'wait' in o:
            _, status = os.waitpid(o['wait'], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            child(o)
        print(pid, flush=True)


if __name__ == '__main__':
    main()
