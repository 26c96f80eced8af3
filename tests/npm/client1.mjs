// Runs a list of steps with the first TypeScript SDK, which knows sessions only, and prints what it received.
// One JSON argument: {"url"|"command", "steps": [...]}.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { answer, runSteps } from './steps.mjs';

const spec = JSON.parse(process.argv[2]);
const client = new Client(
    { name: 'suite-typescript-1', version: '1.0.0' },
    { capabilities: { elicitation: {} } },
);
client.setRequestHandler(ElicitRequestSchema, async (request) => answer(request));
const [command, ...args] = spec.command ?? [];
const transport = command
    ? new StdioClientTransport({ command, args, stderr: 'ignore', env: process.env })
    : new StreamableHTTPClientTransport(new URL(spec.url));

await client.connect(transport);
const steps = await runSteps(client, spec.steps, (params, options) => client.callTool(params, undefined, options));
const printed = JSON.stringify({ protocol: transport.protocolVersion ?? null, steps }) + '\n';
await client.close();
// An exit would cut off what a pipe has not taken yet.
process.stdout.write(printed, () => process.exit(0));
