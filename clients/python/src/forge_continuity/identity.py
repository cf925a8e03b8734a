"""Who wrote a checkpoint: versions, dependencies and prompt catalogue, as the record names them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any, Mapping

from . import canonical, digest


@dataclass(frozen=True)
class ProviderIdentity:
    """Which provider a worker is about to ask. Its digest stands with each request, so that a refusal before admission can be
    reviewed later: the reviewer names the same five texts (``ReviewedProviderRejectionV1``). Executable and epoch are labels."""

    endpoint: str
    executable_identity: str
    model: str
    principal: str
    provider_epoch: str

    def digest(self) -> str:
        for name in ('executable_identity', 'provider_epoch'):
            if not digest.is_label(getattr(self, name)):
                raise ValueError(f'{name} must be 1 to 128 of A-Z a-z 0-9 . _ / -')
        return digest.plain(canonical.encode(dict(vars(self))))


@dataclass(frozen=True)
class SourceIdentity:
    """The members of a checkpoint record that say where it comes from (docs/FORMATS.md)."""

    pydantic_ai: str
    firefly_agentic: str
    source_identity: str
    dependency_epoch: str
    prompt_catalog: Mapping[str, str]

    @classmethod
    def from_catalogue(cls, path: str | os.PathLike[str], *, prompt: str) -> 'SourceIdentity':
        """Returns the registered source that this environment is, under one version of the prompt catalogue. Raises
        ``ValueError`` if a package of the entry has another version here: a version string alone qualifies nothing."""
        catalogue = json.loads(Path(path).read_bytes())
        sdk = version('pydantic-ai-slim')
        ours = [one for one in catalogue['sources'] if one['pydantic_ai'] == sdk]
        entry = next((one for one in ours if one['prompt_catalog']['version'] == prompt), ours[0] if ours else None)
        if entry is None:
            raise ValueError(f'the catalogue has no source with Pydantic AI {sdk}')
        for name, want in entry['dependencies'].items():
            if version(name) != want:
                raise ValueError(f'{name} is {version(name)} here, and {want} in the registered source')
        return cls(sdk, entry['firefly_agentic'], entry['identity'], entry['dependency_epoch'],
                   {'version': prompt, 'digest': catalogue['prompts'][prompt]['digest']})

    @classmethod
    def installed(cls, *, name: str, prompt: str = '1.0.0', prompt_text: bytes = b'', runtime: bytes = b'') -> 'SourceIdentity':
        """Returns an identity made from everything that is installed here. It is registered nowhere, so continuity holds such
        a run with ``source_unregistered``; ordinary work needs no registration. ``name`` is the agent's own version."""
        packages = {d.metadata['Name'].lower().replace('_', '-'): d.version for d in distributions()}
        sdk = version('pydantic-ai-slim')
        epoch = f'{name}/pydantic-ai-{sdk}'
        catalog = {'version': prompt, 'digest': digest.plain(prompt_text)}
        identity: dict[str, Any] = {'firefly_agentic': name, 'pydantic_ai': sdk, 'dependency_epoch': epoch, 'dependencies': packages,
                                    'prompt_catalog': catalog, 'runtime': digest.plain(runtime)}
        return cls(sdk, name, digest.plain(canonical.encode(identity)), epoch, catalog)

    def members(self) -> dict[str, Any]:
        return {
            'record': 'agentic-checkpoint/1',
            'versions': {'firefly_agentic': self.firefly_agentic, 'pydantic_ai': self.pydantic_ai},
            'source_identity': self.source_identity,
            'dependency_epoch': self.dependency_epoch,
            'prompt_catalog': dict(self.prompt_catalog),
            'compatibility': None,
        }
