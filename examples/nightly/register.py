"""Registers a run of the example's agent: what it froze, and the records of the factory that it froze them from."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any, Callable

import agent
from forge_continuity import Forge, canonical
from forge_continuity.pydanticai import capture_contract

LIMITS = {'attempts': 1, 'commands': 22, 'input_tokens': 200_000, 'output_tokens': 20_000, 'repairs': 2, 'requests': 40, 'source_reads': 40,
          'tool_calls': 60, 'total_tokens': 220_000}


def source_cut() -> str:
    """The digest of the source tree that the run reads."""
    tree = agent.recorded.WORKSPACE
    return hashlib.sha256(b''.join(
        f'{agent.sha256(p)}  {p.relative_to(tree).as_posix()}\n'.encode()
        for p in sorted(tree.rglob('*')) if p.is_file() and '__pycache__' not in p.parts)).hexdigest()


def register(operator: Forge, record: Callable[[str, str, str], Any], run_id: str, *, base_url: str, prompt: str = '1.0.0',
             limits: dict[str, int] | None = None, **changes: Any) -> bytes:
    """Opens and registers the run and returns its salt. ``record(kind, name, digest)`` sets a record of the factory and returns it
    as a run freezes it. The caller becomes the run's original actor."""
    contract = canonical.record(asyncio.run(capture_contract(agent.build(base_url, prompt), agent.TASK, deps=lambda _: None)))
    salt = bytes.fromhex(operator.open_run(run_id).receipt['salt'])
    who = agent.identity(prompt)
    runtime = next((s['runtime'] for s in json.loads(agent.CATALOGUE.read_bytes())['sources'] if s['identity'] == who.source_identity),
                   who.source_identity)
    epoch = json.loads(agent.CATALOGUE.read_bytes())['policy_epochs'][0]
    operator.register(run_id, {
        'acknowledgement': epoch['acknowledgement'], 'selection': epoch['selection'], 'mode': epoch['mode'], 'active_deadline': 0, 'attempt': 1,
        'completed_rounds': 0, 'provider_timeout_seconds': 1800, 'time_budget': 'none', 'runtime': runtime, 'validator': agent.VALIDATOR,
        'reader': agent.READER, 'limits': {**LIMITS, **(limits or {})},  # type: ignore[typeddict-item]
        'task': operator.put_blob(run_id, salt, agent.TASK.encode()), 'contract': operator.put_blob(run_id, salt, contract),
        'source': record('source', 'nightly', source_cut()),
        'configuration': record('configuration', 'nightly', hashlib.sha256(base_url.encode()).hexdigest()),
        'scope': record('scope', 'nightly', hashlib.sha256(canonical.encode(sorted(agent.TOOLS))).hexdigest()), **changes})
    return salt
