"""Both services through their real SDKs, against scripted servers."""

from __future__ import annotations

import json
import pickle
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import msgspec
import pytest

from hmz_mp_worker import chat, state
from hmz_mp_worker.backends.protocol import AgentFailed, Failed, Usage
from hmz_mp_worker.chat import CallResult, Clients, Reply, Results, Settings, Tool, User
from tests.helpers import await_until
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.serving import serving
from tests.workers.chat.servers import SERVICES, Place, placed

# The SDKs' streams warn under trio; a worker's loop is asyncio's.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
]

USAGE = {"input": 100, "output": 7, "cache_read": 20}
LONG = "one two three four five six seven eight nine"
TOOLS = (
    Tool("look", "Look at it.", {"type": "object", "properties": {"at": {"type": "string"}}}),
    Tool("leave", "Leave it.", {"type": "object", "properties": {}}),
)
CALLS = [{"tool": "look", "input": {"at": "x"}}, {"tool": "leave", "arguments": '{"at": '}]
SCRIPT: dict[str, Any] = {
    "rules": [
        {"match": "^call", "steps": [{"text": "Looking.", "calls": CALLS}, {"text": "Seen."}]},
        {"match": "^many", "steps": [{"calls": [{"tool": "look"}] * 400}]},
        {"match": "^only call", "steps": [{"tool": "leave"}, {"text": "Left."}]},
        {"match": "^limited", "steps": [{"status": 429, "times": 99, "retry_after": 7}]},
        {"match": "^nobody", "steps": [{"status": 401, "times": 99, "message": "no sk-secret"}]},
        {"match": "^not you", "steps": [{"status": 403, "times": 99}]},
        {"match": "^no such", "steps": [{"status": 404, "times": 99, "message": "no model tiny"}]},
        {"match": "^overloaded", "steps": [{"status": 529, "times": 99}]},
        {"match": "^broken", "steps": [{"status": 500, "times": 99}]},
        {
            "match": "^too long",
            "steps": [{"status": 400, "times": 99, "message": "prompt is too long: 9 > 8"}],
        },
        {
            "match": "^no context",
            "steps": [{"status": 400, "times": 99, "kind": "context_length_exceeded"}],
        },
        {"match": "^bad", "steps": [{"status": 400, "times": 99, "message": "no such option"}]},
        {"match": "^cut", "steps": [{"stream_cut": True, "times": 99, "text": LONG}]},
        {
            "match": "^error inside",
            "steps": [
                {
                    "stream_error": {"type": "overloaded_error", "message": "too busy"},
                    "times": 99,
                    "text": LONG,
                }
            ],
        },
        {
            "match": "^limit inside",
            "steps": [
                {
                    "stream_error": {"type": "rate_limit_error", "message": "too many"},
                    "times": 99,
                    "text": LONG,
                }
            ],
        },
        {"match": "^hang", "steps": [{"hang_s": 30, "times": 99}]},
        {
            "match": "^cut at most",
            "steps": [{"text": LONG, "finish_reason": "length", "stop_reason": "max_tokens"}],
        },
        {
            "match": "^refuse",
            "steps": [
                {
                    "text": "I",
                    "refusal": "I will not.",
                    "stop_reason": "refusal",
                    "stop_details": {"type": "refusal", "explanation": "I will not."},
                }
            ],
        },
        {"match": "^slow", "steps": [{"text": LONG, "word_s": 0.01}]},
    ],
    "default": {"steps": [{"text": "Hello, my dear friend.", "usage": USAGE}]},
}
SCRIPT["rules"].sort(key=lambda rule: -len(rule["match"]))


@pytest.fixture(scope="module", params=SERVICES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with placed(request.param, SCRIPT) as place:
        yield place


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with Clients() as clients:
        yield clients


Ask = Callable[..., Any]


@pytest.fixture
def ask(place: Place, clients: Clients) -> Ask:
    async def ask(*messages: Any, settings: Settings = place.settings, **options: Any) -> Reply:
        said = [User(one) if isinstance(one, str) else one for one in messages]
        return await chat.ask(settings, said, clients=clients, **options)

    return ask


async def failure(place: Place, clients: Clients, prompt: str, **changes: Any) -> Failed:
    settings = msgspec.structs.replace(place.settings, **changes)
    with pytest.raises(chat.AskFailed) as caught:
        await chat.ask(settings, [User(prompt)], clients=clients)
    assert isinstance(caught.value, AgentFailed)
    failed = caught.value.reply.failure
    assert failed is not None
    assert (caught.value.kind, caught.value.reason) == (failed.kind, failed.reason)
    assert caught.value.retry_after == failed.retry_after
    return failed


async def test_a_reply(ask: Ask, place: Place) -> None:
    reply = await ask("hello")
    assert reply.text == "Hello, my dear friend."
    assert (reply.calls, reply.failure) == ((), None)
    read = 100 if place.service == "openai" else 120  # Anthropic counts what was cached apart
    assert reply.usage == Usage("tiny", read, 7, 20)
    assert place.body()["messages"] == [{"role": "user", "content": "hello"}]
    assert place.body()["model"] == "tiny"


async def test_replies_are_plain_values(ask: Ask) -> None:
    reply = await ask("call", tools=TOOLS)
    assert pickle.loads(pickle.dumps(reply)) == reply
    assert msgspec.json.decode(msgspec.json.encode(reply), type=Reply) == reply


async def test_a_conversation(ask: Ask, place: Place) -> None:
    first = await ask("hello")
    await ask("hello", first, "hello again")
    roles = [message["role"] for message in place.body()["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert "my dear friend" in json.dumps(place.body()["messages"][1])


async def test_settings(ask: Ask, place: Place) -> None:
    settings = msgspec.structs.replace(
        place.settings, effort="high", system="Be brief.", max_tokens=9, temperature=0.5
    )
    await ask("hello", settings=settings)
    body = place.body()
    assert body["temperature"] == 0.5
    if place.service == "openai":
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert (body["reasoning_effort"], body["max_completion_tokens"]) == ("high", 9)
    else:
        assert (body["system"], body["max_tokens"]) == ("Be brief.", 9)
        assert body["output_config"] == {"effort": "high"}


async def test_bytes_that_are_no_text_are_escaped(ask: Ask, place: Place) -> None:
    await ask("hello \udcff")
    assert place.body()["messages"][0]["content"] == "hello \\udcff"


async def test_calls_of_tools_and_their_results(ask: Ask, place: Place) -> None:
    reply = await ask("call", tools=TOOLS, choice="required")
    assert reply.text == "Looking."
    look, leave = reply.calls
    assert (look.name, look.arguments) == ("look", '{"at": "x"}')
    assert (leave.name, leave.arguments) == ("leave", '{"at": ')  # as it was written
    wanted = "required" if place.service == "openai" else {"type": "any"}
    assert place.body()["tool_choice"] == wanted
    results = Results((CallResult(look.id, "a thing"), CallResult(leave.id, "what?", True)))
    end = await ask("call", reply, results, tools=TOOLS)
    assert (end.text, end.calls) == ("Seen.", ())
    assert "tool_choice" not in place.body()
    said = place.body()["messages"]
    if place.service == "openai":
        assert [message["role"] for message in said] == ["user", "assistant", "tool", "tool"]
        assert [message["tool_call_id"] for message in said[2:]] == [look.id, leave.id]
    else:
        assert [message["role"] for message in said] == ["user", "assistant", "user"]
        assert [block["is_error"] for block in said[2]["content"]] == [False, True]


async def test_a_reply_that_is_one_call_alone(ask: Ask) -> None:
    reply = await ask("only call", tools=TOOLS)
    assert reply.text == ""
    assert [(call.name, call.arguments) for call in reply.calls] == [("leave", "{}")]
    results = Results((CallResult(reply.calls[0].id, "ok"),))
    assert (await ask("only call", reply, results, tools=TOOLS)).text == "Left."


async def test_many_calls(ask: Ask, place: Place) -> None:
    reply = await ask("many", tools=TOOLS)
    assert len({call.id for call in reply.calls}) == 400


CLOSED = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}},
    "required": ["n"],
    "additionalProperties": False,
}


async def test_a_schema(ask: Ask, place: Place) -> None:
    await ask("hello", schema=json.dumps(CLOSED))
    body = place.body()
    if place.service == "openai":
        wanted = body["response_format"]["json_schema"]
        assert wanted == {"name": "answer", "schema": CLOSED, "strict": True}
    else:
        wanted = body["output_config"]["format"]
        assert wanted["type"] == "json_schema"
        assert wanted["schema"]["properties"]["n"]["type"] == "integer"
        assert json.dumps(CLOSED) in body["system"]  # another server may know nothing of it


async def test_a_schema_that_leaves_something_open(ask: Ask, place: Place) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    await ask("hello", schema=json.dumps(schema))
    body = place.body()
    if place.service == "openai":
        assert body["response_format"]["json_schema"]["strict"] is False
    else:
        assert "output_config" not in body
        assert json.dumps(schema) in body["system"]


async def test_a_stream(place: Place, clients: Clients) -> None:
    heard = [one async for one in chat.stream(place.settings, [User("hi")], clients=clients)]
    assert heard[:-1] == ["Hello, my dear ", "friend."]
    assert isinstance(heard[-1], Reply)


async def test_many_at_once_share_connections(place: Place, clients: Clients) -> None:
    replies: list[Reply] = []

    async def one() -> None:
        replies.append(await chat.ask(place.settings, [User("slow")], clients=clients))

    async with anyio.create_task_group() as tasks:
        for _ in range(30):
            tasks.start_soon(one)
    assert [reply.text for reply in replies] == [LONG] * 30
    assert await clients.of(place.settings) is await clients.of(place.settings)


# Failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kind", "says"),
    [
        ("limited", "limited", "scripted"),
        ("nobody", "unauthorised", "no "),
        ("not you", "unauthorised", "scripted"),
        ("no such", "refused", "no model tiny"),
        ("bad", "refused", "no such option"),
        ("overloaded", "overloaded", "scripted"),
        ("broken", "overloaded", "scripted"),
        ("too long", "too_long", "prompt is too long"),
        ("cut", "overloaded", "cut off"),
        ("error inside", "overloaded", "too busy"),
        ("limit inside", "limited", "too many"),
        ("cut at most", "refused", "cut off at the most tokens"),
        ("refuse", "refused", "I will not."),
    ],
)
async def test_failures(place: Place, clients: Clients, prompt: str, kind: str, says: str) -> None:
    before = len(place.server.requests)
    failed = await failure(place, clients, prompt)
    assert failed.kind == kind
    assert says in failed.reason
    assert len(place.server.requests) == before + 1  # the SDK has not tried again
    assert failed.retry_after == (7 if prompt == "limited" else None)


async def test_what_came_is_in_the_failure(place: Place, clients: Clients) -> None:
    assert (await failure(place, clients, "cut at most")).answer == LONG
    assert (await failure(place, clients, "cut")).answer.startswith("one two three")
    with pytest.raises(chat.AskFailed) as caught:
        await chat.ask(place.settings, [User("cut at most")], clients=clients)
    assert caught.value.reply.usage is not None
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.reply, again.kind, str(again)) == (
        caught.value.reply,
        "refused",
        str(caught.value),
    )


async def test_a_context_that_is_full(place: Place, clients: Clients) -> None:
    said_by_code = place.service == "openai"
    failed = await failure(place, clients, "no context")
    assert failed.kind == ("too_long" if said_by_code else "refused")


async def test_silence(place: Place, clients: Clients) -> None:
    failed = await failure(place, clients, "hang on", stall=0.1)
    assert failed.kind == "stalled"
    assert "0.1 s" in failed.reason


async def test_nobody_there(place: Place, clients: Clients) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        failed = await failure(place, clients, "hello", base_url=address)
    assert failed.kind == "overloaded"
    assert "connection" in failed.reason


class Closing(Anthropic):
    """Closes the connection instead of answering, so often as the prompt says."""

    def answer(self, path: str, raw: bytes, body: dict[str, Any]) -> None:
        prompt = body["messages"][-1]["content"]
        if len(self.server.requests) < int(prompt):
            self.server.requests.append(body)
            self.close_connection = True
        else:
            super().answer(path, raw, body)


@pytest.mark.parametrize("times", [1, 2])
async def test_a_connection_that_was_closed_is_opened_once_more(
    clients: Clients, times: int
) -> None:
    with serving(Closing, SCRIPT) as server:
        settings = Settings("anthropic", "tiny", base_url=server.url)
        said = [User(str(times))]
        if times == 1:
            assert (await chat.ask(settings, said, clients=clients)).failure is None
        else:
            with pytest.raises(chat.AskFailed, match="overloaded: the connection"):
                await chat.ask(settings, said, clients=clients)
        assert len(server.requests) == 2
        await clients.close()


async def test_leaving_in_the_middle(place: Place, clients: Clients) -> None:
    before = place.server.asked("hang here")
    with anyio.CancelScope() as scope:

        async def leave() -> None:
            await await_until(lambda: place.server.asked("hang here") > before)
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            await chat.ask(place.settings, [User("hang here")], clients=clients)
    assert scope.cancelled_caught
    assert (await chat.ask(place.settings, [User("hello")], clients=clients)).failure is None


# Keys ------------------------------------------------------------------------------------------


def authorisation(place: Place) -> str:
    headers = {name.lower(): text for name, text in place.server.requests[-1]["headers"].items()}
    return str(headers.get("authorization") or headers.get("x-api-key"))


async def test_a_key_comes_from_the_environment_and_goes_nowhere_else(
    place: Place, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    settings = msgspec.structs.replace(place.settings, key_env="MY_KEY")
    await chat.ask(settings, [User("hello")], clients=clients)
    assert authorisation(place).endswith("sk-secret")
    failed = await failure(place, clients, "nobody", key_env="MY_KEY")
    assert failed.reason == "no (the key)"
    assert "sk-secret" not in repr(settings)


async def test_a_server_of_ones_own_is_not_sent_the_services_key(
    place: Place, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(chat.DEFAULT_KEYS[place.service], "sk-secret")
    await chat.ask(place.settings, [User("hello")], clients=clients)
    assert "sk-secret" not in json.dumps(place.server.requests[-1]["headers"])


async def test_a_key_that_is_missing(
    place: Place, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    before = len(place.server.requests)
    failed = await failure(place, clients, "hello", key_env="MY_KEY")
    assert failed.kind == "unauthorised"
    assert "MY_KEY" in failed.reason
    assert len(place.server.requests) == before


async def test_the_address_may_come_from_the_environment(
    place: Place, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{place.service.upper()}_BASE_URL", place.settings.base_url)
    monkeypatch.delenv(chat.DEFAULT_KEYS[place.service], raising=False)
    settings = msgspec.structs.replace(place.settings, base_url="")
    await chat.ask(settings, [User("hello")], clients=clients)
    monkeypatch.setenv(chat.DEFAULT_KEYS[place.service], "sk-usual")
    await clients.close()
    await chat.ask(settings, [User("hello")], clients=clients)
    assert authorisation(place).endswith("sk-usual")
    await clients.close()


async def test_a_workers_clients_are_closed_with_it(place: Place) -> None:
    await chat.ask(place.settings, [User("hello")])
    assert state.process.resources
    await state.close_resources()
    assert not state.process.resources
    await chat.ask(place.settings, [User("hello")])
    await state.close_resources()


async def test_a_package_that_is_missing(
    place: Place, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, place.service, None)
    failed = await failure(place, clients, "hello")
    assert failed.kind == "died"
    assert f"hmz-mp[{place.service}]" in failed.reason
