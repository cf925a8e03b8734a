#!/usr/bin/env python3
"""Asks the real Pydantic AI and OpenAI client what they make of chat completions.

    /path/to/venv-2.55.0/bin/python responses.py      (and the same with 2.58.0)

writes responses-<version>.json: "bodies" (whole bodies by name), "results" (distinct messages that came out, without the local
time; a string is the class of the exception) and "cases": [body, JSON Pointer, change, index of the result]. A change is "" (the
body itself), "delete" or the JSON that replaces the value.
"""
import asyncio
import copy
import importlib.metadata
import json
import warnings
from pathlib import Path

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

warnings.simplefilter('ignore')
HERE = Path(__file__).parent
VERSION = importlib.metadata.version('pydantic_ai_slim')


def call(id, name, arguments):
    return {'id': id, 'type': 'function', 'function': {'name': name, 'arguments': arguments}}


def body(message, **more):
    return {
        'id': 'chatcmpl-1', 'object': 'chat.completion', 'created': 1764000000, 'model': 'unpriced-1',
        'choices': [{'index': 0, 'message': {'role': 'assistant', 'content': None, 'refusal': None, 'annotations': [], **message}, 'logprobs': None, 'finish_reason': 'tool_calls'}],
        'usage': {
            'prompt_tokens': 120, 'completion_tokens': 17, 'total_tokens': 137,
            'prompt_tokens_details': {'cached_tokens': 20, 'audio_tokens': 1, 'cache_write_tokens': 3},
            'completion_tokens_details': {'reasoning_tokens': 4, 'audio_tokens': 2, 'accepted_prediction_tokens': 0, 'rejected_prediction_tokens': 0},
        },
        'service_tier': 'default', 'system_fingerprint': 'fp', **more,
    }


def content(text):
    return body({'content': text})


BODIES = {
    'calls': body({'content': 'Let me look.', 'tool_calls': [call('call_a', 'list_files', '{"path": "é"}'), call('call_b', 'read', '')]}),
    'text': content('done'),
    'think': content('a<think>b</think>c<think></think><think>d</think>'),
    'think open': content('a<think>b<think>c'),
    'think empty': content('<think>'),
    'think close only': content('a</think>b'),
    'think nested': content('<think><think>x</think></think>'),
    'reasoning': body({'content': 'x', 'reasoning': 'why'}),
    'reasoning content': body({'reasoning_content': 'why', 'tool_calls': [call('c', 't', '{}')]}),
    'reasoning both': body({'reasoning': 'why', 'reasoning_content': 'because', 'content': 'x'}),
    'reasoning empty first': body({'reasoning': '', 'reasoning_content': 'because', 'content': 'x'}),
    'reasoning object': body({'reasoning': {'a': 1}, 'content': 'x'}),
    'refusal': body({'refusal': 'No.', 'content': 'x'}),
    'audio': body({'audio': {'id': 'a', 'data': 'AAAA', 'expires_at': 1, 'transcript': 't'}}),
    'function_call': body({'function_call': {'name': 'n', 'arguments': '{}'}}),
    'custom': body({'tool_calls': [{'id': 'c', 'type': 'custom', 'custom': {'name': 'n', 'input': 'i'}}]}),
    'no usage': {k: v for k, v in content('x').items() if k != 'usage'},
    'plain usage': {**content('x'), 'usage': {'prompt_tokens': 1, 'completion_tokens': 2, 'total_tokens': 3}},
    'extra usage': {**content('x'), 'usage': {'prompt_tokens': 1, 'completion_tokens': 2, 'total_tokens': 3, 'web': 4, 'cost': 0.5, 'flag': True,
                                              'completion_tokens_details': {'reasoning_tokens': 0, 'odd': 5, 'text_tokens': 2}}},
    'large usage': {**content('x'), 'usage': {'prompt_tokens': 2**63 - 1, 'completion_tokens': 2**63, 'total_tokens': 3}},
    'annotations': body({'content': 'x', 'annotations': [{'type': 'url_citation', 'url_citation': {'start_index': 0, 'end_index': 1, 'title': 't', 'url': 'u'}}]}),
    'two choices': {**content('x'), 'choices': content('x')['choices'] + content('y')['choices']},
    'milliseconds': content('x') | {'created': 1764000000123},
    'surrogate pair': content('😀\u2028'),
}


async def ask(data):
    client = AsyncOpenAI(api_key='k', base_url='https://api.openai.com/v1', max_retries=0, http_client=httpx2.AsyncClient(
        transport=httpx2.MockTransport(lambda request: httpx2.Response(200, headers={'content-type': 'application/json'}, content=data))))
    model = OpenAIChatModel('unpriced-1', provider=OpenAIProvider(openai_client=client))
    try:
        response = await model.request([], None, ModelRequestParameters())
    except Exception as error:
        return type(error).__name__
    message = json.loads(ModelMessagesTypeAdapter.dump_json([response]))[0]
    del message['timestamp']
    if any(p.get('tool_call_id', '').startswith('pyd_ai_') for p in message['parts']):
        return 'random id'
    return message


def pointers(value, path=''):
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from pointers(item, f'{path}/{name}')


REPLACEMENTS = [None, True, 0, 5, -1, 1.5, 1.0, 'x', '', 'stop', 'length', 'content_filter', 'function_call', [], {}, ['x'], {'x': 1}]


async def main():
    results, cases = [], []

    async def note(name, path, change, value):
        result = await ask(json.dumps(value, ensure_ascii=False).encode())
        if result not in results:
            results.append(result)
        cases.append([name, path, change, results.index(result)])

    for name, value in BODIES.items():
        await note(name, '', '', value)
    for name in ('calls', 'reasoning'):
        for path, here in list(pointers(BODIES[name])):
            if not path:
                continue
            *steps, last = path.split('/')[1:]
            for replacement in ['delete', *REPLACEMENTS]:
                changed = copy.deepcopy(BODIES[name])
                parent = changed
                for step in steps:
                    parent = parent[int(step) if isinstance(parent, list) else step]
                key = int(last) if isinstance(parent, list) else last
                if replacement == 'delete':
                    del parent[key]
                else:
                    parent[key] = replacement
                await note(name, path, replacement if replacement == 'delete' else json.dumps(replacement), changed)
    out = {'bodies': BODIES, 'results': results, 'cases': cases}
    (HERE / f'responses-{VERSION}.json').write_text(json.dumps(out, ensure_ascii=True, sort_keys=True, separators=(',', ':')).replace('],["', '],\n["') + '\n')


asyncio.run(main())
