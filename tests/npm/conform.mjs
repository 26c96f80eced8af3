// The client that the conformance suite drives: node conform.mjs [PROXY CONFIG] URL
// With PROXY it starts that program in front of the suite's server and talks to the proxy instead.
// It does what a model's client would: lists, calls every tool that is listed, reads, gets a prompt.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const url = process.argv.at(-1);
const [program, config] = process.argv.slice(2, -1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const modern = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION >= '2026';

const proxy = program && spawn(
    program,
    ['--config', config, '--listen', '127.0.0.1:0', '--state-dir', `${config}-${process.pid}`, '--upstream', url],
    { stdio: ['ignore', 'pipe', 'inherit'] },
);
const endpoint = proxy ? JSON.parse(await firstLine(proxy.stdout)).listening : url;

const client = new Client(
    { name: 'conform', version: '1.0.0' },
    {
        capabilities: { elicitation: { form: { applyDefaults: true } } },
        versionNegotiation: { mode: modern ? 'auto' : 'legacy' },
    },
);
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { confirmed: true } }));

async function firstLine(stream) {
    for await (const line of createInterface({ input: stream })) return line;
}

// What the suite wants a tool to be called with, or the least that the schema allows.
function argumentsFor(tool) {
    const wanted = context.toolCalls?.filter((call) => call.name === tool.name) ?? [];
    if (wanted.length > 0) return wanted.map((call) => call.arguments);
    const least = { number: 1, integer: 1, string: 'text', boolean: true, object: {}, array: [] };
    const needed = (tool.inputSchema.required ?? []).map((name) => {
        return [name, least[tool.inputSchema.properties?.[name]?.type] ?? 'text'];
    });
    return [Object.fromEntries(needed)];
}

async function tryTo(what) {
    try {
        return await what();
    } catch (error) {
        console.error(String(error));
    }
}

async function everything() {
    const tools = (await tryTo(() => client.listTools()))?.tools ?? [];
    const own = tools.filter((tool) => !proxy || !['search_tools', 'call_tool'].includes(tool.name));
    for (const tool of own) {
        for (const args of argumentsFor(tool)) {
            const schema = tools.find((other) => other.name === 'json_schema_2020_12_tool')?.inputSchema;
            const given = tool.name === 'json_schema_echo' ? { schema } : args;
            await tryTo(() => client.callTool({ name: tool.name, arguments: given }));
        }
    }
    const has = client.getServerCapabilities() ?? {};
    if (has.resources) {
        const { resources } = (await tryTo(() => client.listResources())) ?? {};
        if (resources?.[0]) await tryTo(() => client.readResource({ uri: resources[0].uri }));
    }
    if (has.prompts) {
        const { prompts } = (await tryTo(() => client.listPrompts())) ?? {};
        if (prompts?.[0]) await tryTo(() => client.getPrompt({ name: prompts[0].name }));
    }
}

await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
await everything();
// A stream that the server closed is taken up again within this time.
if (scenario === 'sse-retry') await new Promise((resolve) => setTimeout(resolve, 1500));
await tryTo(() => client.close());
proxy?.kill();
process.exit(0);
