"""Uploads files into a session's workspace, changes one, exports the session and imports it again."""

import asyncio

from connect import connect
from everloop import EverloopError, Form


async def main() -> None:
    async with connect() as client:
        session = await client.create_session({"intent": "files"})
        uploaded = await session.upload("", {"notes/today.md": "# Today\n", "data.csv": "a,b\n1,2\n"})
        print(" ".join(uploaded["uploaded"]))

        read = await client.api.read_file(session.id, "notes/today.md")
        text, etag = await read.text(), read.etag
        await session.write_file("notes/today.md", f"{text}done\n", etag=etag)
        try:
            await session.write_file("notes/today.md", "lost", etag=etag)
        except EverloopError as error:
            print(error.code)
        print(await session.read_file("notes/today.md"))

        archive = await (await client.api.export_session(session.id)).read()
        imported = await client.api.import_session(Form(files=[("file", "session.zip", archive)]))
        print(await (await client.api.read_file(imported["id"], "data.csv")).text())


asyncio.run(main())
