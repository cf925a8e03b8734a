#!/usr/bin/env python3
"""Asks the real Pydantic AI what it does with changed histories, usages, limits and tool definitions.

    /path/to/venv-2.55.0/bin/python make.py      (and the same with 2.58.0)

writes base-<version>.json (one text of each kind, as the SDK writes it) and verdicts-<version>.jsonl: one line per place, with
"kind" of text, JSON Pointer "path", and changes of that place: those after which decode and encode gives the "same" canonical
JSON, and the "other" ones. A change is "delete", "add" (of a member) or the JSON that replaces the value. adds-<version>.jsonl has run
usages, the usage of one more response, and what RunUsage.incr makes of them (with one request and two tool calls more).
"""
import copy
import importlib.metadata
import json
import random
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    AudioUrl, BinaryContent, CachePoint, CompactionPart, DocumentUrl, FilePart, ImageUrl, ModelMessagesTypeAdapter, ModelRequest,
    ModelRequestAttempt, ModelResponse, NativeToolCallPart, NativeToolReturnPart, RetryPromptPart, SpeechPart, SystemPromptPart,
    TextContent, TextPart, ThinkingPart, ToolAvailabilityDeltaPart, ToolCallPart, ToolReturnPart, UploadedFile, UserPromptPart,
    VideoUrl, WorkspaceRef,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage, RunUsage, UsageLimits

warnings.simplefilter('ignore')
HERE = Path(__file__).parent
VERSION = importlib.metadata.version('pydantic_ai_slim')
AT = datetime(2026, 3, 4, 5, 6, 7, 890000, tzinfo=timezone.utc)
WHOLE = datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone(timedelta(hours=2)))

history = [
    ModelRequest(
        parts=[
            SystemPromptPart('Be exact.', timestamp=AT, dynamic_ref='ref'),
            UserPromptPart(
                [
                    'plain', TextContent('text', metadata={'a': 1}), ImageUrl('https://x.test/y.png'),
                    BinaryContent(b'\xff\xfe\xfb\x00', media_type='image/png'),
                    UploadedFile(file_id='file', provider_name='openai'), CachePoint(), AudioUrl('https://x.test/a.mp3'),
                    VideoUrl('https://youtu.be/x', force_download=True), DocumentUrl('https://x.test/y.pdf', force_download='allow-local'),
                ],
                timestamp=WHOLE,
            ),
            ToolAvailabilityDeltaPart(tools_added=['tool']),
            SpeechPart(speaker='user', transcript='words'),
        ],
        timestamp=AT, instructions='Be brief.', run_id='run', conversation_id='conversation', metadata={'m': [1, 2.5, None]},
    ),
    ModelResponse(
        parts=[
            TextPart('text'), ThinkingPart('thought', signature='sig', id='i', provider_name='openai', provider_details={'d': 1}),
            ToolCallPart('tool', '{"a":1}', 'call_1'), ToolCallPart('tool', {'a': 1.0}, 'call_2'), ToolCallPart('tool', None, 'call_3'),
            NativeToolCallPart('web_search', {'q': 'x'}, 'call_4', provider_name='openai'),
            NativeToolReturnPart('web_search', {'r': ['x']}, 'call_4', timestamp=AT, provider_name='openai'),
            FilePart(BinaryContent(b'abc', media_type='image/png')), CompactionPart(content=None, provider_name='openai'),
            SpeechPart(speaker='assistant', transcript='words', audio=BinaryContent(b'abcd', media_type='audio/wav'), interrupted_at_ms=5),
            ToolCallPart('search_tools', {'queries': ['a']}, 'call_5', tool_kind='tool-search'),
            ToolCallPart('load_capability', {'id': 'a'}, 'call_6', tool_kind='capability-load'),
        ],
        usage=RequestUsage(input_tokens=7, output_tokens=5, output_reasoning_tokens=3, details={'reasoning_tokens': 3}),
        model_name='model', timestamp=AT, provider_name='openai', provider_url='https://x.test/v1/',
        provider_details={'finish_reason': 'tool_calls', 'timestamp': AT}, provider_response_id='id', finish_reason='tool_call',
        run_id='run', conversation_id='conversation', workspace_ref=WorkspaceRef(provider='p', id='w'),
        failed_attempts=[
            ModelRequestAttempt(model_name='m', provider_name=None, outcome='error', error='e', timestamp=AT, duration=timedelta(seconds=1.25))
        ],
    ),
    ModelRequest(
        parts=[
            ToolReturnPart('tool', {'a': [BinaryContent(b'\xff', media_type='image/png'), 1.0, 1e-7, None, True], 'kind': 'other'}, 'call_1', timestamp=AT, metadata=[1]),
            ToolReturnPart('tool', 'text', 'call_2', timestamp=AT, outcome='interrupted'),
            RetryPromptPart([{'type': 't', 'loc': ('a', 1), 'msg': 'm', 'input': {'z': 1}, 'ctx': {'e': 1}, 'url': 'u'}], tool_name='tool', tool_call_id='call_3', timestamp=AT),
            RetryPromptPart('again', tool_call_id='pyd_ai_0', timestamp=AT),
            ToolReturnPart('search_tools', {'discovered_tools': [{'name': 'a'}]}, 'call_5', tool_kind='tool-search', timestamp=AT),
            ToolReturnPart('load_capability', {'instructions': 'z'}, 'call_6', tool_kind='capability-load', timestamp=AT),
        ],
    ),
]
texts = {
    'history': (ModelMessagesTypeAdapter, history),
    'run_usage': (TypeAdapter(RunUsage), RunUsage(requests=2, tool_calls=1, input_tokens=7, output_tokens=5, output_reasoning_tokens=3, details={'reasoning_tokens': 3})),
    'limits': (TypeAdapter(UsageLimits), UsageLimits(tool_calls_limit=60, cost_limit='1.50')),
    'tool': (TypeAdapter(ToolDefinition), ToolDefinition(name='tool', description='d', parameters_json_schema={'type': 'object', 'properties': {'x': {'type': 'integer'}}})),
}


def canonical(value):
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(',', ':'), allow_nan=False)


def verdict(adapter, value):
    try:
        again = json.loads(adapter.dump_json(adapter.validate_json(canonical(value))))
    except Exception:
        return 'refused'
    return 'same' if canonical(again) == canonical(value) else 'changed'


def pointers(value, path=''):
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from pointers(item, f'{path}/{str(name).replace("~", "~0").replace("/", "~1")}')


def at(root, path):
    names = [n.replace('~1', '/').replace('~0', '~') for n in path.split('/')[1:]]
    for name in names[:-1]:
        root = root[int(name) if isinstance(root, list) else name]
    return root, (int(names[-1]) if isinstance(root, list) else names[-1])


REPLACEMENTS = [None, True, 5, -1, 1.5, 'x', '', [], {}, '2026-03-04T05:06:07.89Z', '2026-03-04T05:06:07+00:00', '2026-03-04 05:06:07Z', 'complete', 'text']


COUNTERS = ['input_tokens', 'cache_write_tokens', 'cache_read_tokens', 'output_tokens', 'input_audio_tokens', 'cache_audio_read_tokens',
            'output_audio_tokens', 'output_reasoning_tokens', 'cache_write_1h_tokens']


def adds(out):
    rng = random.Random(1)

    def usage(cls, **more):
        details = {name: rng.randrange(9) for name in ('reasoning_tokens', 'audio_tokens', 'x') if rng.random() < 0.6}
        return cls(details=details, **{name: rng.randrange(10**6) for name in COUNTERS if rng.random() < 0.7}, **more)

    for _ in range(100):
        run = usage(RunUsage, requests=rng.randrange(9), tool_calls=rng.randrange(9), audio_seconds=rng.choice([0.0, 1.5, 0.1]))
        request = usage(RequestUsage, **rng.choice([{}, {}, {'audio_seconds': 0.2}]))
        adapter = TypeAdapter(RunUsage)
        before = json.loads(adapter.dump_json(run))
        # as in a resumed run: the usage comes back from JSON
        total = adapter.validate_json(adapter.dump_json(run))
        total.incr(request)
        total.requests += 1
        total.tool_calls += 2
        line = {'run': before, 'request': json.loads(TypeAdapter(RequestUsage).dump_json(request)), 'sum': json.loads(adapter.dump_json(total))}
        out.write(canonical(line) + '\n')


def main():
    with (HERE / f'adds-{VERSION}.jsonl').open('w') as out:
        adds(out)
    base = {}
    with (HERE / f'verdicts-{VERSION}.jsonl').open('w') as out:
        for kind, (adapter, value) in texts.items():
            text = json.loads(adapter.dump_json(value))
            base[kind] = text
            assert verdict(adapter, text) == 'same', kind

            for path, here in list(pointers(text)):
                lists = {'same': [], 'other': []}

                def note(op, changed):
                    lists['same' if verdict(adapter, changed) == 'same' else 'other'].append(op)

                if path:
                    changed = copy.deepcopy(text)
                    parent, name = at(changed, path)
                    if isinstance(parent, dict):
                        del parent[name]
                        note('delete', changed)
                    for replacement in REPLACEMENTS:
                        if canonical(replacement) != canonical(here):
                            changed = copy.deepcopy(text)
                            parent, name = at(changed, path)
                            parent[name] = replacement
                            note(canonical(replacement), changed)
                if isinstance(here, dict):
                    changed = copy.deepcopy(text)
                    target = changed
                    if path:
                        parent, name = at(changed, path)
                        target = parent[name]
                    target['zz_added'] = 1
                    note('add', changed)
                out.write(json.dumps({'kind': kind, 'path': path, **lists}) + '\n')
    (HERE / f'base-{VERSION}.json').write_text(canonical(base) + '\n')


main()
