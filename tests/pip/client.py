"""Runs a list of steps with a Python client and prints what it received.

One JSON argument: {"library": "mcp"|"fastmcp", "url"|"command", "mode": "legacy"|"auto"|"2026-07-28",
"steps": [...]}. A failed step is reported as data, so that the caller compares errors as well as results.
"""

import asyncio
import json
import os
import sys

ANSWER = {"username": "ada", "email": "ada@example.com", "name": "ada", "confirmed": True}
LEAST = {"number": 1, "integer": 1, "boolean": True, "array": []}


def fill(schema):
    """One value for each field of a form."""
    filled = {}
    for name, field in (schema or {}).get("properties", {}).items():
        choices = field.get("enum") or [one["const"] for one in field.get("oneOf", [])]
        choices = choices or [field[key] for key in ("default",) if key in field]
        filled[name] = ANSWER.get(name, choices[0] if choices else LEAST.get(field.get("type"), "text"))
    return filled


def official(spec):
    from mcp import Client, StdioServerParameters
    from mcp_types import ElicitResult, Implementation

    async def answer(_context, params):
        schema = getattr(params, "requested_schema", None)
        return ElicitResult(action="accept", content=fill(schema))

    server = spec.get("url")
    if not server:
        command, *args = spec["command"]
        server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    info = Implementation(name="suite-python", version="1.0.0")
    return Client(server, mode=spec["mode"], client_info=info, elicitation_callback=answer)


def fast(spec):
    from fastmcp import Client
    from fastmcp.client.elicitation import ElicitResult
    from fastmcp.client.transports import StdioTransport
    from mcp_types import Implementation

    async def answer(_message, _kind, params, _context):
        return ElicitResult(action="accept", content=fill(params.requested_schema))

    server = spec.get("url")
    if not server:
        command, *args = spec["command"]
        server = StdioTransport(command=command, args=args, env=dict(os.environ), keep_alive=False)
    info = Implementation(name="suite-fastmcp", version="1.0.0")
    return Client(server, mode=spec["mode"], client_info=info, elicitation_handler=answer)


class Names:
    """The same requests under the names that each library gives them."""

    def __init__(self, client, library):
        self.client, self.suffix = client, "_mcp" if library == "fastmcp" else ""

    def __getattr__(self, name):
        return getattr(self.client, name + self.suffix)

    def call(self, name, arguments, on_progress=None):
        key = "progress_handler" if self.suffix else "progress_callback"
        return self.call_tool(name, arguments, **({key: on_progress} if on_progress else {}))


async def perform(names, step):
    name, arguments = step.get("name"), step.get("arguments", {})
    match step["op"]:
        case "list":
            return {"result": await names.list_tools()}
        case "call":
            return {"result": await names.call(name, arguments)}
        case "progress":
            seen = []

            async def on_progress(progress, total, message):
                seen.append({"progress": progress, "total": total, "message": message})

            return {"result": await names.call(name, arguments, on_progress), "progress": seen}
        case "cancel":
            task = asyncio.ensure_future(names.call(name, arguments))
            _done, late = await asyncio.wait([task], timeout=0.4)
            task.cancel()
            await asyncio.wait([task], timeout=10)
            after = await names.list_tools()
            return {"result": {"cancelled": bool(late), "alive": len(after.tools) > 0}}
        case "resource":
            return {"result": await names.read_resource(step["uri"])}
        case "resources":
            return {"result": await names.list_resources()}
        case "prompt":
            return {"result": await names.get_prompt(name, arguments)}
        case "prompts":
            return {"result": await names.list_prompts()}
        case other:
            raise ValueError(f"unknown step {other}")


def plain(outcome):
    result = outcome["result"]
    if not isinstance(result, dict):
        outcome["result"] = result.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return outcome


async def run(names, step):
    try:
        return plain(await perform(names, step))
    except Exception as error:
        # What the libraries say of an error of the protocol lists the same three things in an order of its own.
        said = {key: getattr(error, key, None) for key in ("code", "message", "data")}
        return {"error": said if said["message"] else {"message": str(error)}}


async def main(spec):
    library = spec.get("library", "mcp")
    async with (fast if library == "fastmcp" else official)(spec) as client:
        names = Names(client, library)
        steps = [await run(names, step) for step in spec["steps"]]
        print(json.dumps({"protocol": client.protocol_version, "steps": steps}))


asyncio.run(main(json.loads(sys.argv[1])))
