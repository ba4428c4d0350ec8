"""Writes everloop/generated from the OpenAPI document that `everloop openapi` prints and from docs/events.json.

With --check it writes nothing and fails when a file is out of date.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typewriter import Types, camel, docstring, identifier, module

SDK = Path(__file__).resolve().parent.parent
ROOT = SDK.parent.parent
BINARY = os.environ.get("EVERLOOP_BIN", str(ROOT / "bin" / "everloop"))

Document = dict[str, Any]


def read_document() -> Document:
    printed = subprocess.run([BINARY, "openapi"], check=True, capture_output=True)
    document: Document = json.loads(printed.stdout)
    return document


def models(document: Document) -> str:
    types = Types("#/components/schemas/")
    for name, schema in sorted(document["components"]["schemas"].items()):
        types.define(name, schema)
    for _, _, operation in operations_of(document):
        for suffix, content in (("Body", operation.get("requestBody", {})), *(("Reply", one) for _, one in successes(document, operation))):
            schema = content.get("content", {}).get("application/json", {}).get("schema")
            if schema and schema.get("properties"):
                types.define(camel(operation["operationId"]) + suffix, schema)
    return module("the OpenAPI document", "Models of the REST interface.", "", types.text())


def events(schema: Document) -> str:
    types = Types("#/$defs/")
    for name, one in sorted(schema["$defs"].items()):
        types.define(camel(name), one)
    names = [one["title"] for one in schema["oneOf"]]
    text = types.text()
    for one in schema["oneOf"]:
        name = one["title"]
        text += f'\n\nclass {camel(name)}Event(NamedTuple):\n{docstring(one["description"], 4)}'
        text += f'\n    name: Literal["{name}"]\n    data: {camel(name)}\n'
    # The last two end a subscription and are no events of the session.
    kept = [name for name in names if name not in ("session:resync", "session:error")]
    text += "\n\nclass UnknownEvent(NamedTuple):\n" + docstring("An event of a newer service.", 4)
    text += "\n    name: str\n    data: dict[str, Any]\n"
    text += "\n\nSessionEvent = Union[\n" + "".join(f"    {camel(name)}Event,\n" for name in kept) + "]\n"
    text += '"""One event of a session: its name, and its data of that name\'s type."""\n'
    text += "\nEVENTS: dict[str, Any] = {\n" + "".join(f'    "{name}": {camel(name)}Event,\n' for name in kept) + "}\n"
    text += '"""The class of each event of a session by its name."""\n'
    text += "\nEVENT_NAMES = (\n" + "".join(f'    "{name}",\n' for name in names) + ")\n"
    text += '"""Every event that the service sends."""\n'
    return module("docs/events.json", "Events of sessions.", "", text)


def operations_of(document: Document) -> Iterator[tuple[str, str, Document]]:
    found = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and "operationId" in operation:
                found.append((method.upper(), path, operation))
    yield from sorted(found, key=lambda one: str(one[2]["operationId"]))


def shared(document: Document, one: Document, kind: str) -> Document:
    found: Document = document["components"][kind][one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one
    return found


def successes(document: Document, operation: Document) -> list[tuple[str, Document]]:
    return [(status, shared(document, one, "responses")) for status, one in operation["responses"].items() if status.startswith("2")]


def operations(document: Document) -> str:
    imports = "from collections.abc import AsyncIterator, Mapping, Sequence\n---\nfrom ..sse import ServerSentEvent\n"
    imports += "from ..transport import Download, Form, Transport\nfrom . import models\n"
    text = "class Api:\n"
    text += docstring("Every operation of the REST interface: path parameters first, then the body, then options.", 4)
    text += "\n    def __init__(self, transport: Transport) -> None:\n        self._transport = transport\n"
    text += "".join(method_of(document, *one) for one in operations_of(document))
    return module("the OpenAPI document", "One method for each operation of the REST interface.", imports, text)


def method_of(document: Document, method: str, path: str, operation: Document) -> str:
    types = Types("#/components/schemas/", "models.")
    operation_id = operation["operationId"]
    parameters = [shared(document, one, "parameters") for one in operation.get("parameters", [])]
    in_path = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    query = sorted((one for one in parameters if one["in"] == "query"), key=lambda one: (not one.get("required", False), one["name"]))
    key = any(one["in"] == "header" and one["name"] == "Idempotency-Key" for one in parameters)

    arguments = ["self", *(f"{identifier(name)}: str" for name in in_path)]
    body = operation.get("requestBody")
    if body:
        arguments.append(body_argument(types, operation_id, body))
    arguments.append("*")
    for one in query:
        kind = types.of(one["schema"], "").replace("list[", "Sequence[")
        argument = f"{identifier(one['name'])}: {kind}"
        arguments.append(argument if one.get("required") else f"{argument} | None = None")
    arguments.append("timeout: float | None = None")
    arguments.append("headers: Mapping[str, str] | None = None")
    if key:
        arguments.append("idempotency_key: str | None = None")
    names = [argument.split(":")[0] for argument in arguments]
    assert len(set(names)) == len(names), f"{operation_id}: two arguments have one name"

    kind, result = result_of(types, operation_id, successes(document, operation))
    call = [f'"{method}"', f'"{path}"']
    call.append("{" + ", ".join(f'"{name}": {identifier(name)}' for name in in_path) + "}")
    call.append("body" if body else "None")
    call.append("{" + ", ".join(f'"{one["name"]}": {identifier(one["name"])}' for one in query) + "}")
    call += ["timeout", "headers", *(["idempotency_key"] if key else [])]

    start = "    def" if kind == "stream" else "    async def"
    text = f"\n{start} {identifier(operation_id)}(\n" + "".join(f"        {one},\n" for one in arguments)
    text += f"    ) -> {result}:\n" + docstring(f"{operation['summary']}. {method} {path}", 8)
    wait = "" if kind == "stream" else "await "
    back = "return " if kind != "json" else f"answer: {result} = "
    text += f"        {back}{wait}self._transport.{kind}(\n" + "".join(f"            {one},\n" for one in call) + "        )\n"
    return text + ("        return answer\n" if kind == "json" else "")


def body_argument(types: Types, operation_id: str, body: Document) -> str:
    if "multipart/form-data" in body["content"]:
        kind = "Form"
    else:
        kind = types.of(body["content"]["application/json"]["schema"], camel(operation_id) + "Body")
    return f"body: {kind}" if body.get("required") else f"body: {kind} | None = None"


def result_of(types: Types, operation_id: str, found: list[tuple[str, Document]]) -> tuple[str, str]:
    media = [name for _, one in found for name in one.get("content", {})]
    json_types = []
    for _, one in found:
        if "application/json" in one.get("content", {}):
            kind = types.of(one["content"]["application/json"]["schema"], camel(operation_id) + "Reply")
            if kind not in json_types:
                json_types.append(kind)
    if json_types:
        return "json", " | ".join(json_types)
    if not media:
        return "none", "None"
    if media[0] == "text/event-stream":
        return "stream", "AsyncIterator[ServerSentEvent]"
    return "response", "Download"


def main() -> int:
    document = read_document()
    version = tomllib.loads((SDK / "pyproject.toml").read_text())["project"]["version"]
    files = {
        "__init__.py": '"""Generated by `make sdk`; do not edit."""\n',
        "events.py": events(json.loads((ROOT / "docs" / "events.json").read_text())),
        "models.py": models(document),
        "operations.py": operations(document),
        "version.py": '"""Generated by `make sdk` from pyproject.toml; do not edit."""\n\n'
        f'VERSION = "{version}"\n"""Version of this SDK: that of the service it was made with."""\n',
    }
    target = SDK / "everloop" / "generated"
    target.mkdir(exist_ok=True)
    stale = 0
    for name, text in files.items():
        file = target / name
        if "--check" not in sys.argv:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            print(f"everloop/generated/{name} is out of date: run `make sdk`", file=sys.stderr)
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
