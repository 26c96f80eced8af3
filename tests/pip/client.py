"""Runs a list of steps with the official Python client and prints what it received.

One JSON argument: {"url"|"command", "mode": "legacy"|"auto"|"2026-07-28", "steps": [...]}.
A failed step is reported as data, so that the caller compares errors as well as results.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp_types import Implementation


async def perform(client, step):
    match step["op"]:
        case "list":
            return await client.list_tools()
        case "call":
            return await client.call_tool(step["name"], step.get("arguments", {}))
        case "resources":
            return await client.list_resources()
        case "prompts":
            return await client.list_prompts()
        case other:
            raise ValueError(f"unknown step {other}")


async def run(client, step):
    try:
        result = await perform(client, step)
    except Exception as error:
        return {"error": {"code": getattr(error, "code", None), "message": str(error)}}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_unset=True)}


async def main(spec):
    if "command" in spec:
        command, *args = spec["command"]
        server = StdioServerParameters(command=command, args=args)
    else:
        server = spec["url"]
    info = Implementation(name="suite-python", version="1.0.0")
    async with Client(server, mode=spec["mode"], client_info=info) as client:
        steps = [await run(client, step) for step in spec["steps"]]
        print(json.dumps({"protocol": client.protocol_version, "steps": steps}))


asyncio.run(main(json.loads(sys.argv[1])))
