"""The capability on each provider's wire, streamed and not, with the faults that a wire has. Real SDK, real HTTP, real server."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from living import Life, Small
from provider import Provider, anthropic, chat, google, responses

pytestmark = pytest.mark.one_store


def chat_model(url: str) -> Any:
    return OpenAIChatModel('m-1', provider=OpenAIProvider(openai_client=AsyncOpenAI(base_url=url + '/v1', api_key='k')))


def responses_model(url: str) -> Any:
    return OpenAIResponsesModel('m-1', provider=OpenAIProvider(openai_client=AsyncOpenAI(base_url=url + '/v1', api_key='k')))


def anthropic_model(url: str) -> Any:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    return AnthropicModel('claude-x', provider=AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=url, api_key='k')))


def google_model(url: str) -> Any:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider
    return GoogleModel('gemini-x', provider=GoogleProvider(api_key='k', base_url=url))


LOOK = '{"what":"a"}'
WIRES = {
    'chat': (chat_model, [chat(('c1', 'look', LOOK), ('c2', 'put', '{"what":"b"}')), chat(text='done')]),
    'responses': (responses_model, [responses(('c1', 'look', LOOK), ('c2', 'put', '{"what":"b"}')), responses(text='done')]),
    'anthropic': (anthropic_model, [anthropic(('c1', 'look', {'what': 'a'}), ('c2', 'put', {'what': 'b'}), text='let me see'), anthropic(text='done')]),
    'google': (google_model, [google(('look', {'what': 'a'}), ('put', {'what': 'b'})), google(text='done')]),
}


@pytest.mark.parametrize('wire', WIRES)
def test_each_wire(factory, tmp_path, wire):
    """Wire bytes are recorded before they leave, raw responses before anything looks at them; and what is kept is what was on the wire."""
    model, answers = WIRES[wire]
    with Provider(answers) as provider:
        small = Small(lambda: model(provider.url))
        life = Life(factory, tmp_path, small)
        life.work()
        assert life.view()['position'] == 'completed' and life.results == ['done']
        assert sorted(small.effects) == ['look a', 'put b'] and len(provider.bodies) == 2
        rows = life.rows()
        issued = [r['payload'] for r in rows if r['kind'] == 'request.issued']
        assert [p['wire'] for p in issued] == [hashlib.sha256(b).hexdigest() for b in provider.bodies]
        assert [life.blob(p['wire_blob']) for p in issued] == provider.bodies
        kept = [life.blob(r['payload']['response']) for r in rows if r['kind'] == 'response.kept']
        assert [json.loads(k) for k in kept] == answers
        consumed = [r['payload'] for r in rows if r['kind'] == 'response.consumed']
        assert [(p['calls'], p['tokens']) for p in consumed] == [(2, {'input': 10, 'output': 5}), (0, {'input': 10, 'output': 5})]


@pytest.mark.parametrize('label', ['spooled request.issued', 'acknowledged response.kept', 'acknowledged response.consumed call.granted call.granted',
                                   'acknowledged call.returned', 'acknowledged round.completed checkpoint.saved'])
@pytest.mark.parametrize('wire', WIRES)
def test_each_wire_resumes(factory, tmp_path, wire, label):
    """A worker that died there goes on with the same bytes: no provider call, no effect and no charge more than once. Its next request
    is the one that the unbroken run sent."""
    model, answers = WIRES[wire]
    with Provider([*answers, *answers]) as provider:
        one = Life(factory, tmp_path / 'unbroken', Small(lambda: model(provider.url)))
        one.work()
        small = Small(lambda: model(provider.url))
        life = Life(factory, tmp_path / 'broken', small)
        life.die_at(label)
        assert life.view()['position'] == 'executing' and life.labels[-1] == label
        life.work(again=True)
        if label == 'acknowledged call.returned' and life.view()['position'] == 'held':
            assert 'unknown_effect' in life.holds()  # the other call of the turn was running when the process died
            return
        assert life.view()['position'] == 'completed', (life.labels, life.holds())
        assert sorted(small.effects) == ['look a', 'put b'] and life.view()['counters'] == one.view()['counters']
        assert provider.bodies[:2] == provider.bodies[2:]
