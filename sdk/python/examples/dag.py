"""Publishes a DAG of a tool and a person, runs it, answers its question and prints each change."""

import asyncio
import time

from connect import connect
from everloop import models

DAG: models.Graph = {
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "work", "type": "tool", "config": {"tool": "Bash", "arguments": {"command": "echo made"}}},
        {"id": "gate", "type": "human", "config": {"prompt": "Publish {{nodes.work.output}}?", "options": ["yes", "no"]}},
        {"id": "end", "type": "end"},
    ],
    "edges": [
        {"id": "e1", "source": "start", "target": "work"},
        {"id": "e2", "source": "work", "target": "gate"},
        {"id": "e3", "source": "gate", "target": "end", "source_handle": "yes"},
    ],
}


async def main() -> None:
    async with connect() as client:
        api = client.api
        solution = (await api.create_prod_solution({"name": f"SDK example {time.time_ns()}"}))["id"]
        draft = await api.get_dag(solution)
        await api.save_dag(solution, {"base_version": draft["version"], "dag": DAG})
        await api.publish_dag(solution, {})
        run = await api.create_dag_run(solution, {})
        answered = set()
        async for event in api.stream_dag_run(solution, run["id"]):
            print(event.event, event.data.get("node_id", "run"), event.data["status"])
            for one in (await api.list_inbox())["items"]:
                if one["session_id"] == event.data.get("session_id") and one["question_id"] not in answered:
                    answered.add(one["question_id"])
                    await api.answer_inbox(one["question_id"], {"selections": {"0": [0]}})
        print((await api.get_dag_run(solution, run["id"]))["status"])


asyncio.run(main())
