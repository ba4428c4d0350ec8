"""Sends a message, prints the answer as it streams, and answers questions with their first option."""

import asyncio

from connect import argument, connect
from everloop import Answer, Question, SessionEvent


def show(event: SessionEvent) -> None:
    if event.name != "turn:patch":
        return
    patch = event.data
    if patch["patch_type"] == "add_content" and patch["block_type"] == "text":
        print(patch["text_delta"], end="", flush=True)
    elif patch["patch_type"] == "add_tool_call":
        print(f"\n[{patch['tool_call']['display_name']} {patch['tool_call']['arguments']}]")
    elif patch["patch_type"] == "tool_result":
        print(f"[{patch['status']}: {patch['result']}]")


def choose(question: Question) -> Answer:
    for one in question["questions"]:
        options = one.get("options")
        print(f"\n[{one['question']} -> {options[0]['label'] if options else 'yes'}]")
    return [0 if one.get("options") else "yes" for one in question["questions"]]


async def main() -> None:
    async with connect() as client:
        session = await client.create_session({"intent": "SDK example"})
        session.on(show)
        ran = await session.run(argument(0, "Write a file and list the directory."), on_question=choose)
        usage = ran.end["usage"]
        print(f"\n{ran.end['finish_reason']}: {usage['input_tokens']} + {usage['output_tokens']} tokens in {ran.end['steps']} steps")


asyncio.run(main())
