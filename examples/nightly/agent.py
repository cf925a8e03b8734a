"""The agent of the example: it finds out why a nightly build failed, with real tools on a small source tree.

Model, tools and texts are those of the recorded runs (fixtures/agent), so that a run of it that is held can be continued. The one
object that makes Forge record it is the ``ForgeCapability`` at the end of ``build``.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import anyio

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'fixtures' / 'agent'))
sys.dont_write_bytecode = True

import worker as recorded  # noqa: E402
from evidence_query import EvidenceQuery  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402
from pydantic_ai import Agent, RunContext, Tool  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402
from pydantic_ai.toolsets import FunctionToolset  # noqa: E402

from forge_continuity.identity import ProviderIdentity, SourceIdentity  # noqa: E402
from forge_continuity.pydanticai import ForgeCapability, Guard  # noqa: E402
from forge_continuity.session import command  # noqa: E402

CATALOGUE = ROOT / 'adapters' / 'agentic' / 'catalogue' / 'catalogue.json'
TASK = recorded.TASK
TOOLS: dict[str, Any] = {
    'list_files': 'source_observation', 'read_file': 'pure_read', 'read_run_evidence': 'evidence_read', 'run_command': 'command',
    'write_file': 'write'}

Effect = Callable[[str], None]
"""Told of every tool that really runs, when it does."""


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


VALIDATOR = sha256(ROOT / 'fixtures' / 'agent' / 'evidence_query.py')
READER = sha256(ROOT / 'fixtures' / 'agent' / 'source_reader.py')


def provider(base_url: str) -> ProviderIdentity:
    """Whom the agent asks, as a reviewer of a refused request will name it."""
    return ProviderIdentity(endpoint=base_url, executable_identity='nightly-provider/1', model=recorded.MODEL_NAME, principal='nightly',
                            provider_epoch='2026-12')


def identity(prompt: str) -> SourceIdentity:
    """The registered source, if this environment is one; else one of its own, which continuity will not know."""
    try:
        return SourceIdentity.from_catalogue(CATALOGUE, prompt=prompt)
    except ValueError:
        return SourceIdentity.installed(name='26.10.1', prompt=prompt, prompt_text=prompt.encode())


async def run_command(ctx: RunContext[Effect], command: str) -> dict[str, Any]:
    """Run one command in the source tree and return its exit status and output.

    Args:
        command: The command with its arguments. No shell reads it.
    """
    return await execute(ctx.deps, command)


async def execute(effect: Effect, text: str) -> dict[str, Any]:
    argv = shlex.split(text)
    if not argv or argv[0] not in recorded.COMMANDS:
        raise ValueError('command is not allowed')
    async with command(text) as started:  # recorded before it starts, and refused over the limit
        effect('command ' + text)
        done = await anyio.to_thread.run_sync(lambda: subprocess.run(
            argv, cwd=recorded.WORKSPACE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={'PATH': '/usr/local/bin:/usr/bin:/bin', 'LC_ALL': 'C.UTF-8', 'PYTHONIOENCODING': 'utf-8', 'PYTHONDONTWRITEBYTECODE': '1'},
            timeout=recorded.COMMAND_SECONDS))
        started.finish(done.returncode, {'format': 'command-receipt/1', 'command': text, 'exit_code': done.returncode,
                                         'output_sha256': hashlib.sha256(done.stdout).hexdigest(), 'output_bytes': len(done.stdout)})
    return {'exit_code': done.returncode, 'output': done.stdout.decode('utf-8')}


async def list_files(ctx: RunContext[Effect], path: str) -> list[str]:
    ctx.deps('list_files ' + path)
    return await recorded.list_files(ctx, path)  # type: ignore[arg-type]


async def read_file(ctx: RunContext[Effect], path: str) -> str:
    ctx.deps('read_file ' + path)
    return await recorded.read_file(ctx, path)  # type: ignore[arg-type]


async def read_run_evidence(ctx: RunContext[Effect], **query: Any) -> dict[str, Any]:
    ctx.deps('read_run_evidence ' + str(query.get('kind')))
    return await recorded.read_run_evidence(ctx, **query)  # type: ignore[arg-type]


async def write_file(ctx: RunContext[Effect], path: str, content: str) -> dict[str, Any]:
    return await recorded.write_file(ctx, path, content)  # type: ignore[arg-type]


for ours in (list_files, read_file, write_file):
    ours.__doc__ = getattr(recorded, ours.__name__).__doc__


def build(base_url: str, prompt: str, *, key: str = '', forge: bool = True) -> Agent[Effect, str]:
    """The agent under one version of its prompt catalogue. Under 1.0.0 a rejected evidence query ends the run; under 1.0.1 it is
    answered with a fixed result."""
    evidence = recorded.prompt(prompt)['read_run_evidence']
    client = AsyncOpenAI(base_url=base_url, api_key=key or os.environ.get('OPENAI_API_KEY', 'stub'), timeout=1800)
    tools = FunctionToolset[Effect]([
        Tool(list_files, takes_ctx=True),
        Tool(read_file, takes_ctx=True),
        Tool.from_schema(read_run_evidence, name='read_run_evidence', description=evidence['description'],
                         json_schema=evidence['parameters_json_schema'], takes_ctx=True),
        Tool(run_command, takes_ctx=True, sequential=True),
        Tool(write_file, takes_ctx=True, sequential=True),
    ], id='worker')
    guard = Guard(EvidenceQuery.model_validate, VALIDATOR, None if prompt == '1.0.0' else recorded.INVALID_QUERY)
    capability = ForgeCapability(source=identity(prompt), tools=TOOLS, guards={'read_run_evidence': guard}, provider=provider(base_url))
    return Agent(
        OpenAIChatModel(recorded.MODEL_NAME, provider=OpenAIProvider(openai_client=client)),
        deps_type=Effect, instructions=recorded.INSTRUCTIONS, model_settings=recorded.MODEL_SETTINGS, toolsets=[tools],  # type: ignore[arg-type]
        capabilities=[capability] if forge else [],
    )
