"""The query of read_run_evidence, as the worker checks it before the evidence reader is called.

This file is the pinned validator: its SHA-256 is the validator's identity in the catalogue. It is stricter than the
schema that prompt 1.0.0 advertised to the model, which is why a query can pass the one and fail the other.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class EvidenceQuery(BaseModel):
    """One page of recorded evidence. The whole argument object of the call is the query."""

    model_config = ConfigDict(strict=True, extra='forbid', frozen=True)

    kind: Literal['build_log', 'test_report', 'command_output']
    target: Annotated[str, Field(min_length=1, max_length=64)]
    page: Annotated[int, Field(ge=1, le=1000)] = 1
    page_size: Annotated[int, Field(ge=1, le=10)] = 10
    contains: Annotated[str, Field(min_length=1, max_length=80)] | None = None
