"""Makes a scheduled task, runs it now and waits for the end of its run."""

import asyncio

from connect import argument, connect


async def main() -> None:
    async with connect() as client:
        api = client.api
        task = await api.create_scheduled_task(
            {"title": "Report", "prompt": argument(0, "Write the report."), "cron": "0 9 * * MON-FRI", "timezone": "UTC"}
        )
        print(f"{task['cron_text']}, next at {task['next_run_at']}")
        await api.run_scheduled_task(task["id"])
        while True:
            await asyncio.sleep(0.2)
            run = (await api.list_scheduled_runs(task["id"]))[0]
            if run["status"] != "running":
                break
        print(f"{run['status']}: {run['outcome']}")
        await api.delete_scheduled_task(task["id"])


asyncio.run(main())
