// Runs a list of steps with the official TypeScript client and prints what it received.
// One JSON argument: {"url"|"command", "mode": "legacy"|"auto"|"2026-07-28", "steps": [...]}.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answer, runSteps } from './steps.mjs';

const spec = JSON.parse(process.argv[2]);
const pinned = /^\d/.test(spec.mode) ? { pin: spec.mode } : spec.mode;
const client = new Client(
    { name: 'suite-typescript', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: pinned } },
);
client.setRequestHandler('elicitation/create', async (request) => answer(request));
const [command, ...args] = spec.command ?? [];
const transport = command
    ? new StdioClientTransport({ command, args, stderr: 'ignore', env: process.env })
    : new StreamableHTTPClientTransport(new URL(spec.url));

await client.connect(transport);
const steps = await runSteps(client, spec.steps, (params, options) => client.callTool(params, options));
const printed = JSON.stringify({ protocol: client.getNegotiatedProtocolVersion(), steps }) + '\n';
await client.close();
// An exit would cut off what a pipe has not taken yet.
process.stdout.write(printed, () => process.exit(0));
