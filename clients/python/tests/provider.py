"""A small provider whose answers a test gives, for the wires and the faults that the scripted stub does not have."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable


class Provider:
    """Answers request n (from 0) with ``answers[n]``: a JSON value, bytes of an event stream, a status with a JSON value, or a function
    of the handler that does as it likes. The last answer is repeated."""

    def __init__(self, answers: list[Any]):
        self.answers = answers
        self.bodies: list[bytes] = []
        self.on_request: Callable[[], None] = lambda: None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers['content-length']))
                answer = outer.answers[min(len(outer.bodies), len(outer.answers) - 1)]
                outer.bodies.append(body)
                outer.on_request()
                if callable(answer):
                    return answer(self)
                status, kind = 200, 'application/json'
                if isinstance(answer, tuple):
                    status, answer = answer
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                if isinstance(answer, bytes):
                    kind = 'text/event-stream'
                self.send_response(status)
                self.send_header('content-type', kind)
                self.send_header('content-length', str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server.server_port}'
        self.base_url = self.url + '/v1'

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self) -> 'Provider':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cut_after(data: bytes) -> Callable[[Any], None]:
    """Sends a part of a stream and then breaks the connection."""
    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header('content-type', 'text/event-stream')
        handler.send_header('content-length', str(len(data) + 1000))
        handler.end_headers()
        handler.wfile.write(data)
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.close()
    return answer


def drop(handler: Any) -> None:
    """Breaks the connection without a word."""
    handler.close_connection = True
    handler.connection.close()


def chat(*calls: tuple[str, str, str], text: str | None = None, usage: tuple[int, int] = (10, 5)) -> dict[str, Any]:
    """An OpenAI chat completion: calls are id, tool and arguments."""
    message: dict[str, Any] = {'role': 'assistant', 'content': text}
    if calls:
        message['tool_calls'] = [{'id': i, 'type': 'function', 'function': {'name': n, 'arguments': a}} for i, n, a in calls]
    return {'id': 'chatcmpl-1', 'object': 'chat.completion', 'created': 1780000000, 'model': 'm-1', 'choices': [
        {'index': 0, 'finish_reason': 'tool_calls' if calls else 'stop', 'message': message}],
        'usage': {'prompt_tokens': usage[0], 'completion_tokens': usage[1], 'total_tokens': sum(usage)}}


def chat_stream(*calls: tuple[str, str, str], text: str | None = None) -> bytes:
    """The same as a stream of chunks."""
    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        value = {'id': 'chatcmpl-1', 'object': 'chat.completion.chunk', 'created': 1780000000, 'model': 'm-1',
                 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}], **more}
        return b'data: ' + json.dumps(value).encode() + b'\n\n'

    out = chunk({'role': 'assistant', 'content': ''})
    if text:
        out += b''.join(chunk({'content': part + ' '}) for part in text.split(' '))
    for index, (i, name, args) in enumerate(calls):
        out += chunk({'tool_calls': [{'index': index, 'id': i, 'type': 'function', 'function': {'name': name, 'arguments': ''}}]})
        out += chunk({'tool_calls': [{'index': index, 'function': {'arguments': args}}]})
    out += chunk({}, 'tool_calls' if calls else 'stop')
    last = {'id': 'chatcmpl-1', 'object': 'chat.completion.chunk', 'created': 1780000000, 'model': 'm-1', 'choices': [],
            'usage': {'prompt_tokens': 10, 'completion_tokens': 5, 'total_tokens': 15}}
    return out + b'data: ' + json.dumps(last).encode() + b'\n\ndata: [DONE]\n\n'


def responses(*calls: tuple[str, str, str], text: str | None = None) -> dict[str, Any]:
    """An answer of the OpenAI Responses API."""
    output: list[dict[str, Any]] = [
        {'type': 'function_call', 'id': f'fc_{i}', 'call_id': i, 'name': n, 'arguments': a, 'status': 'completed'} for i, n, a in calls]
    if text:
        output.append({'type': 'message', 'id': 'msg_1', 'role': 'assistant', 'status': 'completed',
                       'content': [{'type': 'output_text', 'text': text, 'annotations': []}]})
    return {'id': 'resp_1', 'object': 'response', 'created_at': 1780000000, 'status': 'completed', 'model': 'm-1', 'output': output,
            'parallel_tool_calls': True, 'tool_choice': 'auto', 'tools': [], 'error': None, 'incomplete_details': None, 'instructions': None,
            'metadata': {}, 'temperature': 1.0, 'top_p': 1.0,
            'usage': {'input_tokens': 10, 'output_tokens': 5, 'total_tokens': 15, 'input_tokens_details': {'cached_tokens': 0},
                      'output_tokens_details': {'reasoning_tokens': 0}}}


def anthropic(*calls: tuple[str, str, Any], text: str | None = None) -> dict[str, Any]:
    """An Anthropic message: arguments are values."""
    content: list[dict[str, Any]] = [{'type': 'text', 'text': text}] if text else []
    content += [{'type': 'tool_use', 'id': i, 'name': n, 'input': a} for i, n, a in calls]
    return {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'm-1', 'content': content,
            'stop_reason': 'tool_use' if calls else 'end_turn', 'stop_sequence': None, 'usage': {'input_tokens': 10, 'output_tokens': 5}}


def google(*calls: tuple[str, Any], text: str | None = None) -> dict[str, Any]:
    """An answer of the Google generateContent API: calls are tool and arguments, without ids."""
    parts: list[dict[str, Any]] = [{'functionCall': {'name': n, 'args': a}} for n, a in calls]
    if text:
        parts.append({'text': text})
    return {'candidates': [{'content': {'parts': parts, 'role': 'model'}, 'finishReason': 'STOP', 'index': 0}], 'modelVersion': 'm-1',
            'responseId': 'r-1', 'usageMetadata': {'promptTokenCount': 10, 'candidatesTokenCount': 5, 'totalTokenCount': 15}}
