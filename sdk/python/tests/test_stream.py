"""The stream of a session against a server that leaves out, repeats and reorders events, and loses connections."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import IsolatedAsyncioTestCase

from aiohttp import web
from everloop import Everloop, EverloopError, Session, SessionEvent

from .fake import Event, Fake, until


class StreamCase(IsolatedAsyncioTestCase):
    transports: Any = ("websocket", "polling")

    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().slow_callback_duration = 60  # a slow machine is no error
        self.fake = Fake()
        await self.fake.start()
        self.client = Everloop(self.fake.url, "el_test", transports=self.transports)
        self.seen: list[int] = []

    async def asyncTearDown(self) -> None:
        await self.client.close()
        await self.fake.close()

    async def follow(self, **options: Any) -> Session:
        session = await self.client.session("s", **options)
        session.on(lambda event: self.seen.append(event.data["seq"]))
        await until("the room", lambda: self.fake.io.manager.rooms.get("/", {}).get("s"))
        return session

    def expected(self) -> list[int]:
        return [data["seq"] for _, data in self.fake.events]

    async def whole(self) -> None:
        await until("all events", lambda: len(self.seen) >= len(self.fake.events))

    async def changed(self, path: str) -> Event:
        return await self.fake.publish("file:changed", path=path, change="created")

    def kept(self, path: str) -> Event:
        return self.fake.add("file:changed", path=path, change="created")

    async def assert_code(self, code: str, awaitable: Any) -> EverloopError:
        with self.assertRaises(EverloopError) as caught:
            await awaitable
        self.assertEqual(caught.exception.code, code)
        return caught.exception


class StreamTest(StreamCase):
    async def test_takes_what_a_gap_left_out_from_the_service_once_and_in_order(self) -> None:
        await self.follow()
        await self.changed("a")
        self.kept("b")  # not sent
        await self.changed("c")
        await self.whole()
        await until("the room", lambda: len(self.fake.subscriptions) == 2)
        await self.changed("d")
        await self.whole()
        self.assertEqual(self.seen, self.expected())
        self.assertEqual(self.fake.subscriptions, [None, 3])

    async def test_answers_with_options_a_text_or_both(self) -> None:
        session = await self.follow()
        sent: list[Any] = []

        async def take(message: dict[str, Any], _: str) -> dict[str, Any]:
            sent.append(message["askuser_answer"])
            return {"ok": True, "resolved": True, "question_id": "q", "chat_id": "c"}

        self.fake.on_send = take
        await session.answer("call", [0, [1, 2], "text", {"options": [1], "text": "besides"}])
        self.assertEqual(
            sent,
            [{"tool_call_id": "call", "selections": {"0": [0], "1": [1, 2], "3": [1]}, "custom": {"2": "text", "3": "besides"}}],
        )

    async def test_writes_a_file_and_gives_the_etag_of_what_it_wrote(self) -> None:
        session = await self.follow()

        async def write(request: web.Request) -> web.Response:
            self.assertEqual(request.method, "PUT")
            return web.json_response({"success": True}, headers={"ETag": f'"{len(self.fake.requests)}"'})

        self.fake.rest = write
        etag = await session.write_file("a/b.txt", "one")
        self.assertEqual(await session.write_file("a/b.txt", "two", etag=etag), '"2"')
        self.assertEqual([one.headers.get("if-match") for one in self.fake.requests], [None, '"1"'])
        self.assertEqual([one.path for one in self.fake.requests], ["/api/sessions/s/files/a/b.txt"] * 2)

    async def test_drops_repeats_and_what_comes_out_of_order(self) -> None:
        await self.follow()
        one = await self.changed("a")
        await self.fake.push(one)
        two, three = self.kept("b"), self.kept("c")
        for event in (three, two, one):
            await self.fake.push(event)
        await self.whole()
        await self.changed("d")
        await self.whole()
        self.assertEqual(self.seen, self.expected())

    async def test_goes_on_behind_its_last_event_after_each_lost_connection(self) -> None:
        session = await self.follow()
        for number in range(5):
            joins = len(self.fake.subscriptions)
            await self.changed(f"{number}")
            await self.whole()
            await self.fake.cut()
            for more in range(20):
                self.kept(f"{number} {more}")
            await until("a new subscription", lambda: len(self.fake.subscriptions) > joins)
            await self.whole()
            await until("the room", lambda: self.fake.io.manager.rooms.get("/", {}).get("s"))
        self.assertEqual(self.seen, self.expected())
        self.assertEqual(session.seq, self.expected()[-1])
        self.assertTrue(session.view.snapshot().online)

    async def test_subscribes_again_after_resync(self) -> None:
        await self.follow()
        await self.changed("a")
        await self.whole()
        await self.fake.io.emit("session:resync", {"session_id": "s", "seq": 3, "ts": "2026-11-22T00:00:00Z"})
        await until("a new subscription", lambda: len(self.fake.subscriptions) == 2)
        await self.changed("b")
        await self.whole()
        self.assertEqual(self.seen, self.expected())

    async def test_begins_behind_the_position_of_an_earlier_stream(self) -> None:
        for number in range(4):
            self.kept(f"{number}")
        await self.follow(after=6)
        await until("the rest", lambda: len(self.seen) == 2)
        self.assertEqual(self.seen, [9, 12])

    async def test_knows_how_the_last_chat_ended(self) -> None:
        end = {"chat_id": "c0", "status": "failed", "finish_reason": "failed", "usage": {}, "steps": 1, "duration_ms": 1}
        self.fake.last_end = end
        session = await self.follow()
        self.assertEqual(session.view.snapshot().last_end, end)
        session.view.reload()  # another branch
        self.assertIsNone(session.view.snapshot().last_end)

    async def test_knows_own_messages_that_join_the_running_chat(self) -> None:
        session = await self.follow()

        async def sent(body: dict[str, Any], sid: str) -> dict[str, Any]:
            turn = {"one": "u1", "two": "u2"}[body["message"]]
            return {"ok": True, "chat_id": "c1", "turn_id": turn, "delivery_applied": "steer", "position": 0, "duplicate": False}

        self.fake.on_send = sent
        await session.send("one", delivery="steer")
        await session.send("two", delivery="steer")

        def joining() -> list[str]:
            return [one["turn_id"] for one in session.view.snapshot().joining]

        self.assertEqual(joining(), ["u1", "u2"])
        await self.fake.publish("turn:start", **{**stored("u1", ""), "role": "user"})
        await until("its turn", lambda: joining() == ["u2"])
        await session.send("one", delivery="steer")  # its acknowledgement came behind its turn
        self.assertEqual(joining(), ["u2"])
        session.view.reload()  # another branch
        self.assertEqual(joining(), [])

    async def test_reads_the_messages_when_events_are_no_longer_kept(self) -> None:
        session = await self.follow()
        await until("the messages", lambda: session.view.snapshot().loaded)
        waiting = asyncio.ensure_future(session.ended("c9"))
        await self.changed("a")
        await self.whole()
        await self.fake.cut()
        for number in range(4):
            self.kept(f"{number}")
        self.fake.kept_from = 12
        self.fake.messages = [stored("t1", "all of it")]
        await until("the messages", lambda: [turn.text for turn in session.view.snapshot().turns] == ["all of it"])
        await until("the rest", lambda: self.seen[-1] == 15)
        self.assertEqual(self.seen, [3, 12, 15])
        await self.assert_code("truncated", waiting)

    async def test_calls_on_joined_before_the_first_event_and_again_when_events_are_missing(self) -> None:
        joins: list[int] = []

        def joined(session: Session) -> None:
            joins.append(session.seq)
            if len(joins) == 1:
                session.on(lambda event: self.seen.append(event.data["seq"]))
                session._stream.received(*self.kept("a"))  # noqa: SLF001 - right behind the acknowledgement

        await self.client.session("s", on_joined=joined)
        self.assertEqual((joins, self.seen), ([0], [3]))
        await until("the room", lambda: self.fake.io.manager.rooms.get("/", {}).get("s"))
        await self.fake.cut()
        self.kept("b")
        await until("what came meanwhile", lambda: len(self.seen) == 2)
        self.assertEqual(joins, [0])
        await until("the room", lambda: self.fake.io.manager.rooms.get("/", {}).get("s"))
        await self.fake.cut()
        for number in range(3):
            self.kept(f"{number}")
        self.fake.kept_from = 12
        await until("what is kept", lambda: self.seen[-1] == 15)
        self.assertEqual((joins, self.seen), ([0, 9], [3, 6, 12, 15]))

    async def test_does_not_loop_over_a_gap_that_the_service_itself_has(self) -> None:
        session = await self.follow()
        self.kept("gone")
        self.fake.spoil = lambda events: [event for event in events if event[1]["path"] != "gone"]
        await self.changed("a")
        await until("the end of repairs", lambda: len(self.fake.subscriptions) == 5)
        await until("the room", lambda: session.seq == 6)
        await self.changed("b")
        await until("the next event", lambda: self.seen)
        self.assertEqual(self.seen, [9])
        self.assertEqual(len(self.fake.subscriptions), 5)
        self.assertEqual(session.seq, 9)

    async def test_ends_with_the_code_of_the_service_when_the_session_is_gone(self) -> None:
        session = await self.follow()
        events = session.events()
        waiting = asyncio.ensure_future(session.ended("c1"))
        await asyncio.sleep(0)
        error = {"code": "session_not_found", "message": "gone", "retryable": False}
        await self.fake.io.emit("session:error", {"session_id": "s", "event": "session:subscribe", "error": error})
        await self.assert_code("session_not_found", anext(events))
        await self.assert_code("session_not_found", waiting)
        await self.assert_code("session_not_found", session.ended("c1"))

    async def test_ends_an_iterator_whose_consumer_is_too_slow(self) -> None:
        session = await self.follow()
        events = session.events()
        for _ in range(10_002):
            event = self.kept("a")
            session._stream.received(*event)  # noqa: SLF001 - over the network it takes seconds
        count = 0
        with self.assertRaises(EverloopError) as caught:
            async for _ in events:
                count += 1
        self.assertEqual(caught.exception.code, "consumer_too_slow")
        self.assertEqual(count, 10_001)
        self.assertEqual(self.seen, self.expected())

    async def test_an_iterator_that_was_dropped_is_forgotten(self) -> None:
        session = await self.follow()
        before = len(session._listeners)  # noqa: SLF001
        async with session.events() as events:
            await self.changed("a")
            self.assertEqual((await anext(events)).name, "file:changed")
        session.events()
        await self.changed("b")
        await self.whole()
        self.assertEqual(len(session._listeners), before)  # noqa: SLF001

    async def test_a_failing_listener_keeps_no_other_from_an_event(self) -> None:
        session = await self.client.session("s")
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        session.on(lambda event: 1 / 0)
        found: list[SessionEvent] = []
        session.on(found.append)
        await until("the room", lambda: self.fake.io.manager.rooms.get("/", {}).get("s"))
        await self.changed("a")
        await until("the event", lambda: found)
        self.assertIsInstance(reported[0]["exception"], ZeroDivisionError)

    async def test_takes_large_events_and_unknown_ones(self) -> None:
        session = await self.follow()
        events = session.events()
        await self.fake.publish("file:changed", path="x" * 6_000_000, change="created")
        await self.fake.publish("later:event", what=1)
        self.assertEqual(len((await anext(events)).data["path"]), 6_000_000)  # type: ignore[typeddict-item]
        self.assertEqual(await anext(events), self.fake.events[-1])
        self.assertEqual(self.fake.subscriptions, [None])


class PollingTest(StreamCase):
    transports = ("polling",)

    async def test_a_replay_of_many_events_over_polling(self) -> None:
        for number in range(300):
            self.kept(f"{number}")
        await self.follow(after=0)
        await self.whole()
        joins = len(self.fake.subscriptions)
        await self.fake.cut()
        for number in range(100):
            self.kept(f"{number}")
        await self.fake.io.disconnect(next(iter(self.fake.io.manager.rooms["/"]["s"])))
        await until("a new subscription", lambda: len(self.fake.subscriptions) > joins)
        await self.whole()
        self.assertEqual(self.seen, self.expected())


def stored(turn_id: str, content: str) -> dict[str, Any]:
    block = {"type": "text", "content": content, "tool_call_id": None, "tool_name": None, "display_name": None}
    return {
        "id": turn_id, "turn_id": turn_id, "sequence": 1, "chat_id": "c1", "loop_id": "root", "kind": "message", "role": "assistant",
        "status": "completed", "blocks": [block], "tool_calls": [], "parent_fork_tool_call_id": None,
    }  # fmt: skip
