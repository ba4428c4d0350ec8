"""Asks for a value that follows a JSON Schema."""

import asyncio

from connect import argument, connect

SCHEMA = {"type": "object", "required": ["colour"], "properties": {"colour": {"type": "string"}}}


async def main() -> None:
    async with connect() as client:
        session = await client.create_session()
        ran = await session.run(argument(0, "Which colour has the sky? Answer as JSON."), output_schema=SCHEMA)
        print(ran.output["colour"])


asyncio.run(main())
