// The steps of a list, one after another, with what each client library calls differently passed in.
// A failed step is reported as data, so that the caller compares errors as well as results.
const ANSWER = { username: 'ada', email: 'ada@example.com', name: 'ada', confirmed: true };

// What this client answers when a server asks it: one value for each field, so that any form is filled.
export function answer(request) {
    const fields = Object.entries(request.params.requestedSchema?.properties ?? {});
    const least = { number: 1, integer: 1, boolean: true, array: [] };
    const choice = (field) => field.enum?.[0] ?? field.oneOf?.[0]?.const ?? field.default;
    const value = ([name, field]) => [name, ANSWER[name] ?? choice(field) ?? least[field.type] ?? 'text'];
    return { action: 'accept', content: Object.fromEntries(fields.map(value)) };
}

export async function runSteps(client, steps, call) {
    const outcomes = [];
    for (const step of steps) outcomes.push(await run(client, step, call));
    return outcomes;
}

async function run(client, step, call) {
    try {
        return await perform(client, step, call);
    } catch (error) {
        return { error: { code: error.code ?? null, message: String(error.message), data: error.data ?? null } };
    }
}

async function perform(client, step, call) {
    const params = { name: step.name, arguments: step.arguments ?? {} };
    switch (step.op) {
        case 'list':
            return { result: await client.listTools() };
        case 'call':
            return { result: await call(params, {}) };
        case 'progress': {
            const progress = [];
            const result = await call(params, { onprogress: (seen) => progress.push(seen) });
            return { result, progress };
        }
        case 'cancel': {
            const stop = new AbortController();
            setTimeout(() => stop.abort('enough'), 400);
            let cancelled = false;
            await call(params, { signal: stop.signal }).catch(() => (cancelled = true));
            const after = await client.listTools();
            return { result: { cancelled, alive: after.tools.length > 0 } };
        }
        case 'resource':
            return { result: await client.readResource({ uri: step.uri }) };
        case 'resources':
            return { result: await client.listResources() };
        case 'prompt':
            return { result: await client.getPrompt(params) };
        case 'prompts':
            return { result: await client.listPrompts() };
        default:
            throw new Error(`unknown step ${step.op}`);
    }
}
