"""A Pydantic AI capability that records an agent's run as it happens.

An agent developer adds one object::

    agent = Agent(model, tools=[...], capabilities=[ForgeCapability(source=..., tools={'list_files': 'source_observation'})])

and lets a worker run it (``forge_continuity.worker``). Wire bytes and raw responses are taken at the provider SDK's HTTP transport;
everything else through the hooks of ``pydantic_ai.capabilities``. Tested with 2.55.0, 2.58.0 and 2.68.0.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from typing import Any, AsyncIterator, Callable, Mapping

from pydantic import TypeAdapter
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities.abstract import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ToolFailedError, ToolRetryError, UserError
from pydantic_ai.messages import (
    ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, RetryPromptPart, ToolCallPart, ToolReturn, ToolReturnPart,
)
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RunUsage, UsageLimits

from . import _tap, canonical, digest
from ._wire import MAX_BLOB
from .errors import Stopped
from .identity import ProviderIdentity, SourceIdentity
from .session import UNKNOWN_OUTCOME, Session, active, running_call
from .types import CallClass

SDK = version('pydantic-ai-slim')
"""The installed version."""

PROVENANCE = ('_telemetry_mcp_url_ids', '_telemetry_mcp_url_tool_names', '_telemetry_mcp_url_toolset_ids')
"""Members of the request parameters that the SDK keeps out of its JSON (docs/decisions/0001). Versions that lack them have none."""

WIRES = {'OpenAIResponsesModel': 'openai-responses'}
"""Wires that are not the ordinary one of their provider, by the SDK's class."""

_USAGE, _LIMITS, _TOOLS = TypeAdapter(RunUsage), TypeAdapter(UsageLimits), TypeAdapter(list[ToolDefinition])


@dataclass(frozen=True)
class Guard:
    """A check of a tool's arguments before the tool is called.

    ``check`` raises ``ValueError`` to reject them (a pydantic ``ValidationError`` is one). ``validator`` is the SHA-256 of the check's
    complete source. Without an ``answer`` a rejection is recorded as refused before start, and the run is held: a person may
    continue it. With one, the model is given that answer and the run goes on.
    """

    check: Callable[[dict[str, Any]], Any]
    validator: str
    answer: Any = None


class ForgeCapability(AbstractCapability[Any]):
    """What one agent's recording needs to know. It keeps nothing of a run, so one object serves any number of them."""

    def __init__(self, *, source: SourceIdentity, tools: Mapping[str, CallClass] | None = None, guards: Mapping[str, Guard] | None = None,
                 provider: ProviderIdentity | None = None):
        """``tools`` says what running each tool may do; a tool that is not in it is ``unknown``. With ``provider`` each request
        says who was asked, which the review of a refusal needs."""
        self.source = source
        self.tools = dict(tools or {})
        self.guards = dict(guards or {})
        self.provider = '' if provider is None else provider.digest()

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None

    def get_ordering(self) -> CapabilityOrdering | None:
        return CapabilityOrdering(position='innermost')  # next to the model: what is kept is what is sent

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        session = active.get()
        if session is None:
            raise UserError('an agent with a ForgeCapability runs through a claimed run: see forge_continuity.worker')
        if isinstance(session, _Capture):
            return _Recording(self, session)
        if session.recording is not None:
            raise UserError('another agent is being recorded into this claim; nested agents need a model without this capability')
        session.recording = recording = _Recording(self, session)
        return recording


class _Recording(AbstractCapability[Any]):
    """The hooks of one run of one agent."""

    def __init__(self, config: ForgeCapability, session: Session):
        self.config, self.session = config, session

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None

    def get_ordering(self) -> CapabilityOrdering | None:
        return CapabilityOrdering(position='innermost')

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        return [_stored_tool(tool) for tool in tool_defs]

    async def prepare_output_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        return [_stored_tool(tool) for tool in tool_defs]

    # Requests

    async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> ModelRequestContext:
        return replace(request_context, model=_RecordedModel(request_context.model, self, ctx))

    async def begin(self, ctx: RunContext[Any], model: Model, messages: list[ModelMessage], settings: Any,
                    params: ModelRequestParameters, *, stream: bool = False) -> '_Exchange':
        """Saves the pending checkpoint and returns what the transport is to do with the request."""
        session = self.session
        contract = render_contract(model, settings, params, stream=stream)
        if isinstance(session, _Capture):
            session.contract_seen = contract
            raise _Captured
        session.check()
        position = session.position
        history = _plain_messages(ctx.messages)
        where = canonical.difference(_plain_messages(messages), history)
        if where or not isinstance(ctx.messages[-1], ModelRequest):
            raise session.stop('history_unsupported', 'The request is not the end of the history that the agent keeps.', path=where or 'last')
        frozen = canonical.stored(dict(session.contract.value))
        where = canonical.difference(_static(canonical.stored(contract)), _static(frozen))
        if where:
            raise session.stop('contract_changed', "The agent's contract is not the one that the run froze.", path=f'contract{where}')
        resuming, session.first_request = session.first_request and session.record is not None, False
        record = self._record(contract, history, ctx.usage)
        if resuming:
            self._same(record)
            if position.turn.open:
                _tap.tap(model)
                session.response = await session.content(position.turn.response)
                return _Exchange(session, self.config.provider, retained=session.response)
        if not resuming or position.checkpoint_used:
            if position.turn.open:
                await session.close_calls(self._answers(ctx.messages))
            await session.save_checkpoint(record)
        if session.draining and session.releasable:
            await session.release()
            raise Stopped('released', 'The run was given back at a clean point.')
        _tap.tap(model)
        return _Exchange(session, self.config.provider)

    def _record(self, contract: dict[str, Any], history: list[Any], usage: RunUsage) -> dict[str, Any]:
        before = self.session.record
        members = self.config.source.members() if before is None else {
            name: before[name] for name in ('record', 'versions', 'source_identity', 'dependency_epoch', 'prompt_catalog', 'compatibility')}
        limits = _plain(_LIMITS, self.session.limits)
        return {**members, 'contract': contract, 'history': history, 'usage': _plain(_USAGE, usage), 'limits': limits,
                'state': {'completed_rounds': self.session.position.rounds + (1 if self.session.position.turn.open else 0)}}

    def _same(self, record: dict[str, Any]) -> None:
        """Compares what the SDK is about to send with the record that the claim handed over, before anything leaves. The SDK
        puts the present time on the request that it sends again; nothing else may differ."""
        wanted = self.session.record
        assert wanted is not None
        for name in ('history', 'usage', 'limits', 'contract'):
            got, want = canonical.stored(record[name]), wanted[name]
            if name == 'history' and got and want:
                got[-1]['timestamp'] = want[-1]['timestamp']
            where = canonical.difference(got, want)
            if where:
                raise _disagrees(f'{name}{where}')

    async def after_model_request(self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse) -> ModelResponse:
        """Charges the response and grants its calls. The agent goes on with the response as a record gives it back, so that a
        resumed run sends the same bytes as one that never stopped."""
        self.session.check()
        text = canonical.record(self._settle_ids(_plain_messages([response])))
        kept = ModelMessagesTypeAdapter.validate_json(text)[0]
        where = canonical.difference(_plain_messages([kept]), json.loads(text))
        if where or not isinstance(kept, ModelResponse):
            raise self.session.stop('round_trip_loss', 'The SDK does not give this response back as it stored it.', path=where or '.')
        calls = [(part.tool_name, part.tool_call_id, _arguments(part)) for part in kept.parts if isinstance(part, ToolCallPart)]
        await self.session.consume(calls, (response.usage.input_tokens, response.usage.output_tokens), self.config.tools)
        return kept

    def _settle_ids(self, messages: list[Any]) -> list[Any]:
        """Some providers give calls no ids, and the SDK then draws some at random. A response that is read again has to have the
        same ones, so they are computed from it."""
        for i, part in enumerate(messages[0]['parts']):
            drawn = part.get('tool_call_id')
            if drawn and drawn.startswith('pyd_ai_') and drawn.encode() not in self.session.response:
                part['tool_call_id'] = 'pyd_ai_' + digest.tagged('forge-continuity.call/1', self.session.response, b'%d' % i)[:32]
        return messages

    # Calls

    async def wrap_tool_execute(self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any],
                                handler: Callable[[dict[str, Any]], Any]) -> Any:
        session = self.session
        session.check()
        known = session.call(call.tool_call_id)
        if known is None:
            raise session.stop('call_not_granted', 'A tool was about to run without a grant, or a second time.', tool=call.tool_name)
        if known.done:
            return await self._retained(known.result, known.failed, call)
        if known.intended:
            raise session.stop('unknown_effect', 'The call was started before, and nothing tells how it ended.', position=str(known.position))
        guard = self.config.guards.get(call.tool_name)
        if guard is not None:
            try:
                guard.check(args)
            except ValueError:
                if guard.answer is None:
                    if not known.refused:
                        await session.refuse_call(known.position, guard.validator)
                    raise session.stop('rejected_evidence_read', 'The validator rejected a query before its tool was called.',
                                       position=str(known.position)) from None
                return await self._answer(known.position, guard.answer, call)
        if known.refused:
            raise session.stop('rejected_evidence_read', 'The call was refused before.', position=str(known.position))
        await session.intend(known.position)
        token = running_call.set((session, known.position))
        try:
            result = await handler(args)
            content = _content(result.return_value if isinstance(result, ToolReturn) else result, call)
            kept = canonical.record(content)
            if len(kept) > MAX_BLOB:
                raise ValueError(f'the result of {call.tool_name} is longer than {MAX_BLOB} bytes')
        except ToolRetryError as error:
            await session.returned(known.position, _part(error.tool_retry), failed=True)
            raise
        except ToolFailedError as error:
            await session.returned(known.position, _part(error.tool_failed), failed=True)
            raise
        except Stopped:
            raise
        except Exception:
            await session.lost(known.position)
            raise
        finally:
            running_call.reset(token)
        extra = isinstance(result, ToolReturn) and (result.content is not None or result.metadata is not None)
        await session.returned(known.position, kept, failed=False)
        if extra:
            raise session.stop('history_unsupported', 'A ToolReturn with content or metadata of its own cannot be resumed.', tool=call.tool_name)
        return _live(content, call)

    async def wrap_output_process(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any,
                                  handler: Callable[[Any], Any]) -> Any:
        """An output tool may be a function with an effect. Its outcome is recorded with the end of the run, for its value is kept
        nowhere else; until then the effect is unknown."""
        call = output_context.tool_call
        if call is None or not output_context.has_function or ctx.partial_output:
            return await handler(output)
        session = self.session
        session.check()
        known = session.call(call.tool_call_id)
        if known is None or known.intended:
            raise session.stop('unknown_effect', 'An output function was about to run without a grant, or a second time.', tool=call.tool_name)
        await session.intend(known.position)
        session.outputs.append((known.position, call.tool_call_id))
        token = running_call.set((session, known.position))
        try:
            return await handler(output)
        finally:
            running_call.reset(token)

    async def _answer(self, position: int, answer: Any, call: ToolCallPart) -> Any:
        await self.session.close_calls([(position, canonical.record(answer), False)])
        return _live(canonical.stored(answer), call)

    async def _retained(self, result: str, failed: bool, call: ToolCallPart) -> Any:
        if not result:
            return dict(UNKNOWN_OUTCOME)
        value = json.loads(await self.session.content(result))
        if not failed:
            return _live(value, call)
        part = ModelMessagesTypeAdapter.validate_python([_request_of(value)])[0].parts[0]
        if isinstance(part, RetryPromptPart):
            raise ToolRetryError(part)
        if isinstance(part, ToolReturnPart):
            raise ToolFailedError(part)
        raise self.session.stop('history_unsupported', 'A retained failure is of an unknown kind.')

    def _answers(self, messages: list[ModelMessage]) -> list[tuple[int, bytes, bool]]:
        """What the SDK answered by itself to calls of the turn that never reached their tool."""
        parts: list[Any] = []
        for message in reversed(messages):
            if isinstance(message, ModelResponse):
                break
            parts = [p for p in message.parts if isinstance(p, (ToolReturnPart, RetryPromptPart))] + parts
        results = []
        for position, call_id in [*self.session.called, *self.session.outputs]:
            part = next((p for p in parts if p.tool_call_id == call_id), None)
            known = self.session.position.turn.calls.get(position)
            if part is None or known is None or known.done or known.refused:
                continue
            parts.remove(part)
            failed = isinstance(part, RetryPromptPart) or getattr(part, 'outcome', 'success') != 'success'
            results.append((position, _part(part) if failed else canonical.record(_plain_part(part)['content']), failed))
        return results


class _RecordedModel(WrapperModel):
    """Stands between the agent and its model for one request."""

    def __init__(self, wrapped: Model, recording: _Recording, ctx: RunContext[Any]):
        super().__init__(wrapped)
        self.recording, self.ctx = recording, ctx

    async def request(self, messages: list[ModelMessage], model_settings: Any, model_request_parameters: ModelRequestParameters) -> ModelResponse:
        exchange = await self.recording.begin(self.ctx, self.wrapped, messages, model_settings, model_request_parameters)
        token = _tap.current.set(exchange)
        try:
            response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        except Exception:
            exchange.check()
            raise
        finally:
            _tap.current.reset(token)
        exchange.check(complete=True)
        return response

    @contextlib.asynccontextmanager
    async def request_stream(self, messages: list[ModelMessage], model_settings: Any, model_request_parameters: ModelRequestParameters,
                             run_context: Any = None) -> AsyncIterator[Any]:
        exchange = await self.recording.begin(self.ctx, self.wrapped, messages, model_settings, model_request_parameters,
                                              stream=True)
        opened = self.wrapped.request_stream(messages, model_settings, model_request_parameters, run_context)
        _tap.current.set(exchange)
        try:
            try:
                stream = await opened.__aenter__()
            finally:
                _tap.current.set(None)
            try:
                yield stream
            except BaseException as error:
                if not await opened.__aexit__(type(error), error, error.__traceback__):
                    raise
            else:
                await opened.__aexit__(None, None, None)
        except Exception:
            exchange.check()
            raise
        if exchange.stream is not None:
            await exchange.stream.aclose()
        exchange.check(complete=True)


class _Exchange:
    """One request on the wire (``_tap.Exchange``). An SDK may turn an exception of its transport into its own, so a stop is kept
    here too."""

    def __init__(self, session: Session, provider: str, retained: bytes | None = None):
        self.session, self.provider, self.retained = session, provider, retained
        self.left = self.whole = False
        self.stream: Any = None
        self.stopped: Stopped | None = None

    async def leaving(self, body: bytes) -> bytes | None:
        with self._keeping():
            self.session.check()
            if self.left:
                raise self.session.stop('second_request', 'The SDK was about to send a request again under one intent.')
            self.left = True
            if self.retained is None:
                await self.session.issue(body, self.provider)
                return None
            if digest.plain(body) != self.session.position.turn.wire:
                raise _disagrees('wire')
            self.whole = True
            return self.retained

    async def arrived(self, body: bytes, *, partial: bool) -> None:
        with self._keeping():
            await self.session.keep_response(body, partial=partial)
            self.whole = not partial

    def refused(self, status: int, body: bytes) -> None:
        self.session.provider_refusal = status, body

    def check(self, *, complete: bool = False) -> None:
        """Raises the stop that the transport met."""
        if self.stopped is not None:
            raise self.stopped
        self.session.check()
        if complete and not self.whole:
            raise self.session.stop('model_unsupported', 'The model answered without a response that could be kept.')

    @contextlib.contextmanager
    def _keeping(self) -> Any:
        try:
            yield
        except Stopped as stop:
            self.stopped = stop
            raise


class _Captured(Exception):
    """The contract was rendered; nothing is sent."""


class _Capture:
    """Stands where a session would, for one request that never leaves."""

    contract_seen: dict[str, Any] | None = None


async def capture_contract(agent: Agent[Any, Any], prompt: str, *, deps: Any = None, **options: Any) -> dict[str, Any]:
    """Returns the contract that an agent with a ``ForgeCapability`` renders for its first request, without sending anything. A run
    is registered with it, in the record form (``canonical.record``). ``options`` go to ``agent.run`` as in ``run``: an agent whose
    events are handled streams its requests, which is a part of the contract."""
    capture = _Capture()
    token = active.set(capture)  # type: ignore[arg-type]
    try:
        await agent.run(prompt, deps=deps, **options)
    except _Captured:
        pass
    finally:
        active.reset(token)
    if capture.contract_seen is None:
        raise UserError('the agent sent no request through a ForgeCapability')
    return capture.contract_seen


def render_contract(model: Model, settings: Any, params: ModelRequestParameters, *, stream: bool = False) -> dict[str, Any]:
    """Returns the frozen contract, from what the agent really rendered for a request. The wire is named where a provider has
    another one beside its ordinary one."""
    output, inner = params.output_object, model
    while isinstance(inner, WrapperModel):
        inner = inner.wrapped
    wire = next((WIRES[c.__name__] for c in type(inner).__mro__ if c.__name__ in WIRES), None)
    if params.output_mode == 'auto':  # newer versions settle it once per run, with the first request, and older ones never say so
        _, settled = model.prepare_request(settings, params)
        params = replace(params, output_mode=settled.output_mode, allow_text_output=settled.allow_text_output)
    contract: dict[str, Any] = {
        'model': {'provider': model.system, 'name': model.model_name, 'base_url': model.base_url, 'settings': dict(settings or {})},
        'instructions': [{'content': part.content, 'dynamic': part.dynamic} for part in params.instruction_parts or []],
        'tools': _plain(_TOOLS, params.function_tools),
        'grants': [tool.name for tool in params.function_tools],
        'output': {
            'output_mode': params.output_mode,
            'output_tools': _plain(_TOOLS, params.output_tools),
            'output_object': None if output is None else json.loads(TypeAdapter(type(output)).dump_json(output)),
            'allow_text_output': params.allow_text_output,
            'allow_image_output': params.allow_image_output,
        },
    }
    if wire is not None:
        contract['model']['wire'] = wire
    if stream:
        contract['model']['stream'] = True
    for name in PROVENANCE:
        if hasattr(params, name):
            value = getattr(params, name)
            contract[name] = None if value is None else sorted(value)
    return contract


async def run(session: Session, agent: Agent[Any, Any], *, deps: Any = None, **options: Any) -> Any:
    """Runs an agent on a claimed run, from where the run stands, to its end, and completes the run. Returns the agent's result.

    ``options`` go to ``agent.run``; prompt, history, usage and limits come from the run. Raises ``Stopped`` when the agent may not go
    on; how the claim ends then is the caller's affair (``worker`` does it).
    """
    session.limits = limits_of(session)
    prompt, history, usage = await load(session)
    token = active.set(session)
    task = asyncio.ensure_future(agent.run(prompt, deps=deps, message_history=history, usage=usage,
                                           usage_limits=session.limits, **options))
    active.reset(token)
    session.journal.on_stop = lambda _: task.cancel()
    try:
        result = await asyncio.shield(task)
    except asyncio.CancelledError:
        if session.journal.stop is not None:
            raise session.journal.stop from None
        task.cancel()
        await asyncio.wait([task])
        raise
    except Exception as error:
        if session.journal.stop is not None and error is not session.journal.stop:
            raise session.journal.stop from error
        raise
    finally:
        session.journal.on_stop = None
    session.check()
    await session.close_calls(session.recording._answers(result.all_messages()))
    output = result.output
    await session.complete(output.encode() if isinstance(output, str) else canonical.record(json.loads(
        TypeAdapter(type(output)).dump_json(output))))
    return result


def limits_of(session: Session) -> UsageLimits:
    """Returns the run's lifetime limits as the SDK's own."""
    limits = session.registration['limits']
    return UsageLimits(request_limit=limits['requests'], tool_calls_limit=limits['tool_calls'], input_tokens_limit=limits['input_tokens'],
                       output_tokens_limit=limits['output_tokens'], total_tokens_limit=limits['total_tokens'])


async def load(session: Session) -> tuple[str | None, list[ModelMessage] | None, RunUsage | None]:
    """Returns prompt, history and usage to run from. A checkpoint is loaded with the installed SDK and compared with what the claim
    binds: canonical history, usage, limits and tools, value for value; a difference is ``sdk_disagrees``, before anything is sent."""
    session.check()
    if session.position.unknown:
        raise session.stop('unknown_effect', 'Something may have happened that nothing tells the outcome of.')
    record = session.record
    if record is None:
        return await session.task(), None, None
    wrote = record['versions']['pydantic_ai']
    if wrote != SDK:
        raise session.stop('restore_version_mismatch', 'The record is of another version of the SDK than is installed.', got=SDK, want=wrote)
    try:
        history = ModelMessagesTypeAdapter.validate_json(canonical.record(record['history']))
        usage = _USAGE.validate_json(canonical.record(record['usage']))
        limits = _LIMITS.validate_json(canonical.record(record['limits']))
        tools = _TOOLS.validate_json(canonical.record(record['contract']['tools']))
    except ValueError as error:
        raise _disagrees('record', kind=type(error).__name__) from error
    if not history or not isinstance(history[-1], ModelRequest):
        raise _disagrees('history')
    for name, got, want in (
        ('history', _plain_messages(history), record['history']), ('usage', _plain(_USAGE, usage), record['usage']),
        ('limits', _plain(_LIMITS, limits), record['limits']), ('contract.tools', _plain(_TOOLS, tools), record['contract']['tools']),
        ('limits', _plain(_LIMITS, limits_of(session)), record['limits']),
    ):
        where = canonical.difference(canonical.stored(got), want)
        if where:
            raise _disagrees(f'{name}{where}')
    issued = session.position.turn.open  # the turn that this worker brings to its end is not in the checkpoint's usage
    for name, spent, allowed in (('usage.requests', usage.requests + issued, session.position.requests),
                                 ('state.completed_rounds', record['state']['completed_rounds'], session.position.rounds)):
        if spent > allowed:
            raise _disagrees(name, got=str(spent), want=str(allowed))
    return None, history, usage


def _disagrees(path: str, **details: str) -> Stopped:
    return Stopped('sdk_disagrees', 'The installed SDK reads the checkpoint differently from what the claim binds.', {'path': path, **details})


def _static(contract: dict[str, Any]) -> dict[str, Any]:
    """Returns what may never change of a contract: not the text of instructions that the agent makes anew for each request."""
    instructions = [{**part, 'content': ''} if part['dynamic'] else part for part in contract['instructions']]
    return {**contract, 'instructions': instructions}


def _plain(adapter: TypeAdapter[Any], value: Any) -> Any:
    return json.loads(adapter.dump_json(value))


def _plain_messages(messages: list[Any]) -> Any:
    return json.loads(ModelMessagesTypeAdapter.dump_json(messages))


def _request_of(part: dict[str, Any]) -> dict[str, Any]:
    return {'kind': 'request', 'parts': [part]}


def _plain_part(part: Any) -> dict[str, Any]:
    return dict(_plain_messages([ModelRequest(parts=[part])])[0]['parts'][0])


def _part(part: Any) -> bytes:
    return canonical.record(_plain_part(part))


def _content(value: Any, call: ToolCallPart) -> Any:
    """Returns a tool's result as the history stores it."""
    return canonical.stored(_plain_part(ToolReturnPart(tool_name=call.tool_name, content=value, tool_call_id=call.tool_call_id))['content'])


def _live(content: Any, call: ToolCallPart) -> Any:
    """Returns the value that a stored result is loaded as."""
    part = {'part_kind': 'tool-return', 'tool_name': call.tool_name, 'tool_call_id': call.tool_call_id, 'content': content,
            'timestamp': datetime(1970, 1, 1).isoformat() + 'Z'}
    loaded = ModelMessagesTypeAdapter.validate_python([_request_of(part)])[0].parts[0]
    assert isinstance(loaded, ToolReturnPart)
    return loaded.content


def _arguments(call: ToolCallPart) -> str:
    """Returns the text of a call's arguments: the provider's own where it is one, else the record form of the value."""
    if isinstance(call.args, str):
        return call.args
    return '' if call.args is None else canonical.record(call.args).decode('ascii')


def _stored_tool(tool: ToolDefinition) -> ToolDefinition:
    """A stored definition has to render to the bytes that were sent, so the live one has its member order."""
    return replace(tool, parameters_json_schema=canonical.stored(tool.parameters_json_schema),
                   return_schema=canonical.stored(tool.return_schema))
