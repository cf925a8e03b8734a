"""The first recorded run of an agent of your own, from the factory's token to the rows of its journal::

    forge factory create mine --administrator ada --store forge.db > ada.token
    forge serve --store forge.db &
    FORGE_TOKEN=$(cat ada.token) OPENAI_API_KEY=... python examples/first.py

OPENAI_BASE_URL and MODEL name another server that speaks OpenAI's chat wire. In earnest the operator who registers and the worker
who runs are two people with tokens of their own; here both are in one file.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

from forge_continuity import AsyncForge, canonical, digest
from forge_continuity.identity import SourceIdentity
from forge_continuity.pydanticai import ForgeCapability, capture_contract
from forge_continuity.session import command
from forge_continuity.worker import Worker

SERVER = os.environ.get('FORGE_SERVER', 'http://127.0.0.1:8740')
TASK = 'Which Python is installed here? Use the tool.'


async def python_version() -> str:
    """Run `python --version` and return what it says."""
    async with command('python --version') as started:  # recorded before it starts, refused where it would be one too many
        run = await asyncio.create_subprocess_exec(sys.executable, '--version', stdout=asyncio.subprocess.PIPE)
        out = (await run.communicate())[0].decode().strip()
        started.finish(run.returncode or 0, {'output': out})
    return out


agent = Agent(
    OpenAIChatModel(os.environ.get('MODEL', 'gpt-4o-mini')), tools=[python_version],
    capabilities=[ForgeCapability(source=SourceIdentity.installed(name='first'), tools={'python_version': 'command'})])


async def register(ada: AsyncForge, run_id: str) -> None:
    """Opens a run and freezes what it is: task, contract, limits, and the state of the world that it was started in."""
    contract = canonical.record(await capture_contract(agent, TASK))  # sends nothing
    salt = bytes.fromhex((await ada.open_run(run_id)).receipt['salt'])

    async def frozen(kind: str, content: bytes) -> dict[str, object]:
        name = digest.plain(content)
        revision = (await ada.put_record(f'{run_id}-{kind}', kind, 'first', name))['revision']
        return {'record': 'first', 'revision': revision, 'digest': name}

    await ada.register(run_id, {
        'task': await ada.put_blob(run_id, salt, TASK.encode()), 'contract': await ada.put_blob(run_id, salt, contract),
        'source': await frozen('source', b'the files that the agent may read'),
        'configuration': await frozen('configuration', b'the provider and its settings'),
        'scope': await frozen('scope', b'what the agent may touch'),
        'limits': {'attempts': 1, 'commands': 3, 'input_tokens': 10_000, 'output_tokens': 2_000, 'repairs': 0, 'requests': 5, 'source_reads': 0,
                   'tool_calls': 5, 'total_tokens': 12_000},
        'attempt': 1, 'completed_rounds': 0, 'active_deadline': 0, 'provider_timeout_seconds': 600, 'time_budget': 'none',
        'mode': 'required', 'selection': 'all', 'acknowledgement': 'none',
        'reader': digest.plain(b'no reader'), 'runtime': digest.plain(b'first'), 'validator': digest.plain(b'no validator')})


async def main() -> None:
    async with AsyncForge(SERVER, os.environ['FORGE_TOKEN']) as ada:
        await ada.put_principal('ada-is-operator-too', 'ada', ['administrator', 'operator'], replaces=1)
        await ada.put_principal('there-is-a-worker', 'worker', ['worker'])
        token = (await ada.issue_token('worker', 3600))['token']
        run_id = 'first-' + secrets.token_hex(4)
        await register(ada, run_id)
        async with AsyncForge(SERVER, token) as forge:
            await Worker(forge, lambda session: agent, spool='spool', on_result=lambda session, result: print(result.output)).run(once=True)
        print(f'run {run_id} is {(await ada.run(run_id))["position"]}:')
        async for row in ada.all_rows(run_id):
            print(f'{row["seq"]:4} {row["kind"]}')


if __name__ == '__main__':
    asyncio.run(main())
