"""A chat over a connection that breaks: run by e2e/sdk_python.test.mjs, which cuts the connections at each line `cut`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from everloop import Answer, Everloop, Question, SessionEvent


async def main(transport: Any, message: str) -> None:
    async with Everloop(os.environ["EVERLOOP_URL"], os.environ["EVERLOOP_KEY"], transports=(transport,)) as client:
        session = await client.create_session()
        events: list[SessionEvent] = []
        cuts = 0

        def cut() -> None:
            nonlocal cuts
            cuts += 1
            print("cut", flush=True)

        def take(event: SessionEvent) -> None:
            events.append(event)
            if len(events) % 25 == 24 and cuts < 12:
                cut()

        def choose(_: Question) -> Answer:
            cut()
            return [1]

        session.on(take)
        ran = await session.run(message, on_question=choose)
        updated = session.events()
        while session.view.snapshot().status != "completed":
            await anext(updated)
        state = session.view.snapshot()
        turns = [
            {
                "id": turn.turn_id,
                "role": turn.role,
                "status": turn.status,
                "blocks": [[one["type"], one["content"]] for one in turn.blocks if one["type"] not in ("tool_use", "tool_result")],
                "calls": [[one.id, one.tool_name, one.arguments, one.status, one.result] for one in turn.tool_calls],
            }
            for turn in state.turns
        ]
        seen = [{"name": event.name, "data": event.data} for event in events]
        result = {"session": session.id, "seq": session.seq, "cuts": cuts, "finish": ran.end["finish_reason"], "text": ran.text}
        print(json.dumps({**result, "turns": turns, "questions": list(state.questions), "events": seen}), flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2]))
