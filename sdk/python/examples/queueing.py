"""Three ways to send a message while a chat runs: the next chat, into the running one, or instead of it."""

import asyncio

from connect import argument, connect


async def main() -> None:
    async with connect() as client:
        session = await client.create_session()
        first = await session.send(argument(0, "Count to a hundred, slowly."))
        following = await session.send(argument(1, "And then to ten."), delivery="enqueue")
        print(f"{following.delivery_applied} at {following.position}")
        steered = await session.send(argument(2, "Skip the odd numbers."), delivery="steer")
        print(f"{steered.delivery_applied} into {'the first chat' if steered.chat_id == first.chat_id else 'a chat of its own'}")
        urgent = await session.send(argument(3, "Stop counting and say hello."), delivery="interrupt")
        print(f"first: {(await session.ended(first.chat_id))['finish_reason']}")
        print(f"urgent: {(await session.ended(urgent.chat_id))['finish_reason']}")
        print(f"next: {(await session.ended(following.chat_id))['finish_reason']}")


asyncio.run(main())
