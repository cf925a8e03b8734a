"""The Python client of Forge.

``Forge`` and ``AsyncForge`` speak to a server. ``forge_continuity.pydanticai`` records an agent as it runs, and
``forge_continuity.worker`` is the loop around it; both need Pydantic AI and are imported on their own.
"""

from ._async import AsyncForge
from ._sync import Forge
from .errors import (
    ArgumentRefused, ForgeError, RefusedError, Stopped, UncertainError, UnexpectedAnswer, UnreachableError,
)
from .types import Fact, Saved

__all__ = [
    'ArgumentRefused', 'AsyncForge', 'Fact', 'Forge', 'ForgeError', 'RefusedError', 'Saved', 'Stopped', 'UncertainError',
    'UnexpectedAnswer', 'UnreachableError',
]
__version__ = '0.1.0'
