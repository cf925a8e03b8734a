#!/usr/bin/env python3
"""Asks the real Pydantic AI and OpenAI client which bytes they send for a request.

    /path/to/venv-2.55.0/bin/python requests.py      (and the same with 2.58.0)

writes requests-<version>.jsonl, one request a line: "model", "settings", "instructions", "tools", "output_tools", "allow_text",
"history" (as their JSON forms are stored) and "wire", the body as text.
"""
import asyncio
import importlib.metadata
import json
import random
import sys
import warnings
from datetime import datetime, timezone
from pathlib import Path

sys.path.remove(str(Path(__file__).resolve().parent))  # this file has the name of a package

import httpx2  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402
from pydantic_ai.messages import (  # noqa: E402
    ImageUrl, InstructionPart, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, RetryPromptPart, SystemPromptPart, TextContent,
    TextPart, ThinkingPart, ToolCallPart, ToolReturnPart, UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402
from pydantic_ai.tools import ToolDefinition  # noqa: E402

warnings.simplefilter('ignore')
HERE = Path(__file__).parent
VERSION = importlib.metadata.version('pydantic_ai_slim')
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
TOOL = TypeAdapter(ToolDefinition)


def obj(properties, required=None, **more):
    return {'type': 'object', 'properties': properties, 'required': list(properties) if required is None else required, **more}


LEAVES = [
    {'type': 'string'}, {'type': 'integer', 'minimum': 1, 'maximum': 10}, {'type': 'number', 'multipleOf': 0.5}, {'type': 'boolean'},
    {'type': 'string', 'enum': ['a', 'b'], 'title': 'T', 'description': 'é <&>'}, {'type': ['string', 'null']}, {'type': 'null'},
    {'anyOf': [{'type': 'string'}, {'type': 'null'}], 'default': None}, {'type': 'string', 'minLength': 1}, {'const': 1.0},
    {'type': 'string', 'format': 'date'}, {'type': 'string', 'format': 'uri'}, {'type': 'string', 'pattern': '^a+$'},
    {'type': 'string', 'pattern': '^(?=a)\\('}, {'type': 'integer', 'default': 3}, {'type': 'array', 'items': {'type': 'string'}},
    {'type': 'array', 'items': {}}, {'type': 'array'}, {'type': 'array', 'items': True}, {'type': 'array', 'prefixItems': [{'type': 'string'}]},
    {'type': 'array', 'items': {'type': 'integer'}, 'uniqueItems': True}, {'oneOf': [{'type': 'string'}, {'type': 'integer'}], 'discriminator': {'x': 1}},
    {'allOf': [{'type': 'string', 'title': 'x'}], 'description': 'd'}, {'anyOf': [{'type': 'object'}], 'title': 't'}, {}, True,
    {'type': 'object', 'additionalProperties': {'type': 'string', 'title': 'q'}}, {'type': 'object', 'additionalProperties': True},
    {'type': 'object', 'patternProperties': {'^x': {'type': 'string'}}}, {'$ref': '#/$defs/D'}, {'$ref': '#/$defs/D', 'description': 'with'},
    {'$ref': '#/properties/a'}, {'type': 'object', 'anyOf': [{'title': 'u', 'type': 'object'}], 'properties': {}}, {'title': 'only'},
]
DEFS = {'D': {'type': 'object', 'title': 'D', 'properties': {'x': {'type': 'integer', 'title': 'X'}}, 'required': ['x'], 'additionalProperties': False}}


def draw_schema(rng):
    properties = {name: rng.choice(LEAVES) for name in rng.sample(['a', 'b', 'c', 'é'], rng.randrange(0, 4))}
    if rng.random() < 0.3:
        properties['n'] = obj({'z': rng.choice(LEAVES)}, title='N')
    schema = obj(properties, rng.choice([None, None, [], ['a']]), **rng.choice([{}, {'additionalProperties': False}, {'title': 'S', '$schema': 'x'}, {'additionalProperties': True}]))
    if '$defs' in json.dumps(properties):
        schema['$defs'] = DEFS
    if rng.random() < 0.1:
        del schema['required']
    return schema


def draw_tool(rng, name):
    return ToolDefinition(
        name=name, description=rng.choice([None, '', 'Does "it".\nWell — yes.']), parameters_json_schema=draw_schema(rng),
        strict=rng.choice([None, None, None, True, False]), sequential=rng.random() < 0.5, return_schema=rng.choice([None, {'type': 'string'}]),
    )


RESULTS = [None, '', 'text\n"q" é', [], ['a'], {}, {'b': 1, 'a': [1.0, 1e-7, 1e22, 123456.789, None, True]}, 5, 0.1, False, [[]], [None], {'kind': 'note', 'x': '\u2028\x7f\x00'}]
ARGS = ['{"a": 1}', '{ "b":1.50, "a":"é" }', '', '{', '[1]', 'null', '{"a":1,"a":{"x":2}}', {'a': 1.0, 'b': 'é'}, {}, None, '{"n":10000000000000000000000,"x":"\\u00e9"}']


def draw_history(rng):
    history, n = [], 0
    parts = [SystemPromptPart('System é', timestamp=AT)] if rng.random() < 0.4 else []
    parts.append(UserPromptPart(rng.choice(['Hi "you"', ['a', TextContent('b'), ImageUrl('https://x.test/y.png')], []]), timestamp=AT))
    if rng.random() < 0.2:
        parts.append(SystemPromptPart('Later', timestamp=AT))
    for _ in range(rng.randrange(0, 4)):
        history.append(ModelRequest(parts=parts, timestamp=AT))
        calls = []
        response = []
        for _ in range(rng.randrange(0, 3)):
            response.append(rng.choice([
                TextPart('text'), TextPart(''), ThinkingPart('t', id='reasoning', provider_name='openai'), ThinkingPart('u', id='reasoning_content', provider_name='openai'),
                ThinkingPart('v', id='content', provider_name='openai'), ThinkingPart('w'), ThinkingPart('x', id='reasoning', provider_name='other'),
            ]))
        for _ in range(rng.randrange(0, 3)):
            n += 1
            calls.append(ToolCallPart(rng.choice(['t1', 't2']), rng.choice(ARGS), f'call_{n}'))
        response += calls
        if not response:
            response = [TextPart('x')]
        history.append(ModelResponse(parts=response, timestamp=AT))
        parts = []
        for c in calls:
            parts.append(rng.choice([
                ToolReturnPart(c.tool_name, rng.choice(RESULTS), c.tool_call_id, timestamp=AT, outcome=rng.choice(['success', 'success', 'failed', 'denied', 'interrupted'])),
                RetryPromptPart(rng.choice(['No.', [{'type': 'missing', 'loc': ('a', 0), 'msg': 'Field "é"', 'input': {'z': [1.0, {}, []]}, 'ctx': {'e': 1}}],
                                            [{'type': 'x', 'loc': ('a',), 'msg': 'm', 'input': 1e22}, {'type': 'y', 'loc': (), 'msg': 'n', 'input': None}]]),
                                tool_name=c.tool_name, tool_call_id=c.tool_call_id, timestamp=AT),
            ]))
        if not parts or rng.random() < 0.2:
            parts.append(rng.choice([
                UserPromptPart('more', timestamp=AT), RetryPromptPart('Text.', tool_call_id='pyd_ai_1', timestamp=AT),
                RetryPromptPart([{'type': 'missing', 'loc': ('a',), 'msg': 'm', 'input': {'z': 1}}, {'type': 'x', 'loc': ('a', 'b'), 'msg': 'm', 'input': 2}], tool_call_id='pyd_ai_2', timestamp=AT),
            ]))
    history.append(ModelRequest(parts=parts, timestamp=AT))
    return history


def draw_settings(rng):
    pool = {
        'temperature': rng.choice([0.2, 1, 1e-07, None]), 'top_p': 0.9, 'presence_penalty': -0.5, 'frequency_penalty': 0.25, 'seed': 7, 'max_tokens': 100,
        'stop_sequences': ['a', 'é'], 'parallel_tool_calls': rng.choice([True, False]), 'logit_bias': {'50256': -100}, 'timeout': 1800, 'openai_user': 'u',
        'openai_service_tier': 'flex', 'service_tier': 'default', 'openai_store': False, 'openai_logprobs': True, 'openai_top_logprobs': 2, 'tool_choice': 'auto',
        'openai_prompt_cache_key': 'k', 'openai_prompt_cache_retention': '24h', 'openai_reasoning_effort': rng.choice(['low', 'none']),
        'openai_prediction': {'type': 'content', 'content': 'p'},
    }
    return {name: pool[name] for name in rng.sample(sorted(pool), rng.randrange(0, 6))}


async def send(case):
    sent = []

    def handler(request):
        sent.append(request.content)
        raise RuntimeError('stop')

    client = AsyncOpenAI(api_key='k', base_url='https://api.openai.com/v1', max_retries=0, http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(handler)))
    model = OpenAIChatModel(case['model'], provider=OpenAIProvider(openai_client=client))
    params = ModelRequestParameters(
        function_tools=[TOOL.validate_json(json.dumps(t)) for t in case['tools']],
        output_tools=[TOOL.validate_json(json.dumps(t)) for t in case['output_tools']],
        output_mode='tool' if case['output_tools'] else 'text', allow_text_output=case['allow_text'],
        instruction_parts=[InstructionPart(content=c) for c in case['instructions']],
    )
    try:
        await model.request(ModelMessagesTypeAdapter.validate_json(json.dumps(case['history'])), case['settings'], params)
    except Exception as error:
        if not sent:
            return f'{type(error).__name__}'
    return sent[0].decode()


MODELS = ['unpriced-1', 'unpriced-1', 'gpt-4.1', 'gpt-5', 'gpt-5.2', 'gpt-5.6', 'o3-mini', 'gpt-5.3-chat']


async def main():
    rng = random.Random(7)
    with (HERE / f'requests-{VERSION}.jsonl').open('w') as out:
        for _ in range(60):
            output_tools = [draw_tool(rng, 'final')] if rng.random() < 0.2 else []
            case = {
                'model': rng.choice(MODELS), 'settings': draw_settings(rng), 'instructions': rng.choice([[], ['One.'], ['One.', 'Two é']]),
                'tools': [json.loads(TOOL.dump_json(draw_tool(rng, f't{i}'))) for i in range(rng.randrange(0, 4))],
                'output_tools': [json.loads(TOOL.dump_json(t)) for t in output_tools], 'allow_text': not output_tools or rng.random() < 0.5,
                'history': json.loads(ModelMessagesTypeAdapter.dump_json(draw_history(rng))),
            }
            case['wire'] = await send(case)
            out.write(json.dumps(case, ensure_ascii=True, separators=(',', ':')) + '\n')


asyncio.run(main())
