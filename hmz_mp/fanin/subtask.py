"""`run_subtask`: one item seen to by a chat model with a few tools, in a conversation of its own.

The loop is here, in the coordinator, with the `Dispatcher`: what a model may do and what it has
cost is decided where the pool, its limits and the run are. Each asking of the model is a turn on a
host worker, so that hundreds wait in one process, the SDKs and their connections stay out of this
one, and a service that is too busy is waited for as by agents on the same account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp import portal
from hmz_mp.agents.chat import account_of, chat_settings
from hmz_mp.agents.counting import Used, counters
from hmz_mp.agents.failures import busy_of, failed_by, worth_retrying
from hmz_mp.agents.identity import identity_of
from hmz_mp.agents.schema import NotOfSchema, decoder_for
from hmz_mp.agents.spec import parse
from hmz_mp.agents.verdicts import needs_review
from hmz_mp.core.ambient import current_pool
from hmz_mp.dispatch.calls import ToolCall
from hmz_mp.dispatch.dispatcher import Dispatcher
from hmz_mp.dispatch.rendering import cut, text_of
from hmz_mp.errors import BadInput, PoolClosed, Stopped
from hmz_mp.fanin.brief import one_line
from hmz_mp.fanin.budget import Budget
from hmz_mp.fanin.finding import Finding, finding_of, is_about
from hmz_mp.fanin.identity import id_of
from hmz_mp.fanin.recording import Recording
from hmz_mp.fanin.work import prompt_for, shown_by
from hmz_mp.tools import Tool
from hmz_mp_worker import chat
from hmz_mp_worker.backends.schemas import schema_for

if TYPE_CHECKING:
    from hmz_mp.agents import Prompt
    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.core.caller import Caller
    from hmz_mp.core.pool import Pool
    from hmz_mp.fanin.identity import Key
    from hmz_mp.fanin.work import Template

__all__ = ["run_subtask"]

_HOW = (
    "See to the one item that you are given, with the tools that you have. Ask for all calls that "
    "do not need each other's results in one turn. When you know, answer; do not guess."
)
_LONGEST = 200  # characters of a call, in what is written down
_FINDING = (
    "Your answer is one finding about that item. item_id: as it is given, or else the item itself. "
    "status: ok, failed if it could not be seen to, needs_review if somebody has to look. "
    "finding: one or two sentences. evidence_ref: where the evidence is (a path and a line, an "
    "address), not the evidence. confidence: high or low."
)


async def run_subtask(
    item: Any,
    *,
    model: str | chat.Settings,
    tools: Dispatcher | Iterable[Tool[..., Any] | Callable[..., Any]] = (),
    max_turns: int = 6,
    schema: Any = Finding,
    base_url: str = "",
    template: Template = "",
    constraints: str = "",
    reference: str = "",
    max_tokens: int = 0,
    max_cost: float = 0.0,
    prices: tuple[float, float] = (0.0, 0.0),
    timeout: float | None = None,
    key: Key = None,
) -> Any:
    """Have a chat model see to one item, with these tools and nothing else; return its answer.

    ``model`` is written as an agent is, ``openai/MODEL`` or ``anthropic/MODEL``, or with settings
    (``cli=openai,model=MODEL,effort=high``); ``base_url`` is another server's address. It is told
    the ``constraints``, the ``reference`` material and the item, by ``template`` as in `ask`; it
    knows nothing of other items. ``tools`` may be a `Dispatcher`, whose caps then hold over all
    sub-runs that share it. ``timeout`` is seconds for each asking. The answer is of the type
    ``schema``, or text with ``None``; one that does not fit is sent back.

    A sub-run that has not answered after ``max_turns`` askings, or has used ``max_tokens`` or
    ``max_cost`` (with ``prices``, dollars for a million tokens read and written), returns a
    `Finding` that needs review. In a run it is a turn of that run, with what it has used. Raises
    `hmz_mp.agents.Failed` when the service refuses, and `BadInput` for a model that is none.
    """
    if max_turns < 1:
        raise ValueError(f"max_turns is how often the model is asked, not {max_turns}")
    settings = _settings(model, base_url)
    finds = isinstance(schema, type) and issubclass(schema, Finding)
    given = (settings.system, constraints.strip(), reference.strip(), _HOW, _FINDING * finds)
    item_id = id_of(item, key)
    subtask = _Subtask(
        item_id,
        _prompt(template, item, item_id, told=finds),
        _Model(
            msgspec.structs.replace(settings, system="\n\n".join(filter(None, given))),
            model if isinstance(model, str) else f"{settings.service}/{settings.model}",
            Budget(max_tokens, max_cost, prices),
            timeout,
        ),
        tools if isinstance(tools, Dispatcher) else Dispatcher(tools),
        _reader(schema, item_id),
        "" if schema is None else schema_for(schema, strict=True).text,
    )
    return await portal.on_a_pool(subtask.run, max_turns)


def _settings(model: str | chat.Settings, base_url: str) -> chat.Settings:
    if isinstance(model, chat.Settings):
        return msgspec.structs.replace(model, base_url=base_url or model.base_url)
    spec = parse(model)
    if base_url:
        spec = spec._replace(settings={**spec.settings, "base_url": base_url})
    if spec.backend not in chat.PACKAGES:
        there = " and ".join(f"{service}/" for service in chat.PACKAGES)
        raise BadInput(f"model {model!r}: sub-runs ask models of {there}, not of {spec.backend}/")
    return chat_settings(spec)


def _prompt(template: Template, item: Any, item_id: str, *, told: bool) -> Prompt:
    prompt = prompt_for(template, item, item_id)
    if not told or prompt.text == item_id:
        return prompt
    return msgspec.structs.replace(prompt, text=f"{prompt.text}\n\nThe item_id is: {item_id}")


def _reader(schema: Any, item_id: str) -> Callable[[str], Any]:
    """Return what makes the value of an answer, or raises `NotOfSchema`."""
    if schema is None:
        return str
    check, decode = schema_for(schema, strict=True).check, decoder_for(schema)

    def read(text: str) -> Any:
        value = decode(check(text))
        if isinstance(value, Finding):
            if not is_about(value, item_id):
                raise NotOfSchema(f"item_id is {value.item_id!r}, and has to be {item_id!r}")
            value.item_id = item_id
        return value

    return read


class _Model(msgspec.Struct, frozen=True):
    """A model, how it is written, and what may be used of it."""

    settings: chat.Settings
    spec: str
    budget: Budget
    timeout: float | None

    def caller_in(self, pool: Pool, recording: Recording) -> Caller:
        """Return what submits the askings: at the limit of all who are on the same account."""
        return pool.options(
            limit=pool.limit(account_of(self.settings)),
            is_busy=busy_of,
            retry_if=worth_retrying,
            timeout=self.timeout,
            on_event=recording.heard,
            item_id=recording.record.item_id,
            name="subtask",
        )


class _Subtask:
    """One sub-run. Its state is what has been said so far, and what that has used."""

    def __init__(
        self,
        item_id: str,
        prompt: Prompt,
        model: _Model,
        dispatcher: Dispatcher,
        read: Callable[[str], Any],
        schema: str,
    ) -> None:
        self._item_id = item_id
        self._prompt = prompt
        self._model = model
        self._dispatcher = dispatcher
        self._read = read
        self._schema = schema
        self._tools = tuple(
            chat.Tool(one.name, one.explanation, one.parameters) for one in dispatcher.tools
        )
        self._said: list[chat.Message] = [chat.User(prompt.text)]
        self._used = Used()

    async def run(self, max_turns: int) -> Any:
        """Go on until there is an answer, or no more is allowed."""
        pool = current_pool()
        if pool is None:
            raise PoolClosed("there is no pool around this sub-run")
        recording = Recording(self._model.spec, self._item_id, self._prompt, self._identity())
        async with recording.open():
            if recording.known is not None:
                return self._recalled(recording.known)
            caller = self._model.caller_in(pool, recording)
            return await self._converse(caller, recording, max_turns)

    def _identity(self) -> str:
        tools = [one.name for one in self._dispatcher.tools]
        return identity_of(
            (self._item_id, self._prompt.text, self._schema),
            (self._model.spec, self._model.settings.system, *tools),
        )

    def _recalled(self, known: TurnRecord) -> Any:
        """Return the answer of an earlier execution of the run."""
        try:
            if self._schema or not needs_review(known):
                return self._read(known.answer or "")
        except NotOfSchema:  # it is the finding of one that had no answer
            pass
        reason = known.error or "it gave no answer that fits"
        return Finding(self._item_id, "needs_review", reason, shown_by(self._item_id), "low")

    async def _converse(self, caller: Caller, recording: Recording, max_turns: int) -> Any:
        for turn in range(1, max_turns + 1):
            reply = await self._asked(caller, recording)
            if not reply.calls:
                try:
                    value = self._read(reply.text)
                except NotOfSchema as error:
                    again = chat.User(f"That cannot be taken: {error}. Answer again, in full.")
                    self._said += [reply, again]
                else:
                    recording.answered(reply.text, value)
                    return value
            reason = self._model.budget.reached(self._used)
            if reason is not None:
                return self._unanswered(recording, f"{reason}, after {_turns(turn)}", reply)
            if reply.calls and turn < max_turns:
                for call in reply.calls:
                    recording.did(cut(one_line(f"{call.name} {call.arguments}"), _LONGEST))
                self._said += [reply, await self._results(reply)]
        return self._unanswered(recording, f"no answer after {_turns(max_turns)}", reply)

    async def _asked(self, caller: Caller, recording: Recording) -> chat.Reply:
        try:
            reply: chat.Reply = await caller.run(
                chat.ask, self._model.settings, self._said, tools=self._tools, schema=self._schema
            )
        except chat.AskFailed as error:
            self._note_used(error.reply, recording)
            raise self._failed(error) from error
        except (Stopped, PoolClosed):
            raise
        except Exception as error:  # a timeout, a lost worker
            raise self._failed(error) from error
        self._note_used(reply, recording)
        return reply

    def _failed(self, error: Exception) -> Exception:
        return failed_by(error, cmd=self._model.spec, item_id=self._item_id)

    def _note_used(self, reply: chat.Reply, recording: Recording) -> None:
        if reply.usage is not None:
            usage = self._model.budget.priced(reply.usage)
            for used in (self._used, *counters()):
                used.add((usage,))
                used.turns += 1
            recording.used(usage)

    async def _results(self, reply: chat.Reply) -> chat.Results:
        calls = [ToolCall(one.id, one.name, one.arguments, "chat") for one in reply.calls]
        answers = await self._dispatcher.answers(calls)
        return chat.Results(
            tuple(
                chat.CallResult(call.id, one.text, one.is_error)
                for call, one in zip(calls, answers, strict=True)
            )
        )

    def _unanswered(self, recording: Recording, reason: str, last: chat.Reply) -> Finding:
        said = last.text.strip()
        if last.calls:
            names = ", ".join(dict.fromkeys(one.name for one in last.calls))
            said = f"{said} (and asked for {names})".strip()
        text = f"{reason}; it last said: {said}" if said else reason
        finding = Finding(self._item_id, "needs_review", text, shown_by(self._item_id), "low")
        finding = finding_of(self._item_id, finding)
        recording.answered(text_of(finding), finding)
        return finding


def _turns(number: int) -> str:
    return f"{number} turn{'' if number == 1 else 's'}"
