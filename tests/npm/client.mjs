// Runs a list of steps with the official TypeScript client and prints what it received.
// One JSON argument: {"url"|"command", "mode": "legacy"|"auto"|"2026-07-28", "steps": [...],
// "capabilities": what it can be asked}.
// A failed step is reported as data, so that the caller compares errors as well as results.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const spec = JSON.parse(process.argv[2]);
const pinned = /^\d/.test(spec.mode) ? { pin: spec.mode } : spec.mode;
const client = new Client(
    { name: 'suite-typescript', version: '1.0.0' },
    { versionNegotiation: { mode: pinned }, capabilities: spec.capabilities ?? {} },
);
// What a client that can be asked answers.
const answers = {
    'elicitation/create': { action: 'accept', content: { name: 'suite' } },
    'sampling/createMessage': { role: 'assistant', model: 'suite', content: { type: 'text', text: 'sampled' } },
    'roots/list': { roots: [{ uri: 'file:///suite', name: 'suite root' }] },
};
for (const [method, answer] of Object.entries(answers)) {
    const capability = method.split('/')[0];
    if (spec.capabilities?.[capability]) client.setRequestHandler(method, async () => answer);
}
const [command, ...args] = spec.command ?? [];
const transport = command
    ? new StdioClientTransport({ command, args, stderr: 'ignore' })
    : new StreamableHTTPClientTransport(new URL(spec.url));

async function run(step) {
    try {
        return { result: await perform(step) };
    } catch (error) {
        return { error: { code: error.code ?? null, message: String(error.message) } };
    }
}

function perform(step) {
    switch (step.op) {
        case 'list':
            return client.listTools();
        case 'call':
            return client.callTool({ name: step.name, arguments: step.arguments ?? {} });
        case 'resources':
            return client.listResources();
        case 'prompts':
            return client.listPrompts();
        default:
            throw new Error(`unknown step ${step.op}`);
    }
}

await client.connect(transport);
const steps = [];
for (const step of spec.steps) steps.push(await run(step));
process.stdout.write(JSON.stringify({ protocol: client.getNegotiatedProtocolVersion(), steps }) + '\n');
await client.close();
process.exit(0);
