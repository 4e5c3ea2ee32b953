// What both versions of the TypeScript SDK share when many clients call tools until standard input ends. See load.py.

import { untilInputEnds } from './watch.mjs';

const TOOLS = ['act', 'put', 'read'];
const MARK = 'vmcp.dev/backendSession';
const PAUSE = 50;

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

class Load {
  constructor(name, stateful) {
    this.name = name;
    this.record = { stateful, ended: false, results: [], broken: [], rejected: [] };
  }

  async call(client, tool, key) {
    let result;
    try {
      result = await client.callTool({ name: tool, arguments: { key } });
    } catch (error) {
      this.fail(tool, key, error);
      return false;
    }
    const told = result.structuredContent;
    if (told?.key === undefined) {
      this.record.rejected.push({ tool, message: JSON.stringify(result), retryable: false });
      return false;
    }
    const { key: returned, session, number } = told;
    const marked = result._meta?.[MARK] !== undefined;
    this.record.results.push({ key, returned, session, number, marked });
    return true;
  }

  fail(tool, key, error) {
    // fetch reports a broken connection as a TypeError.
    if (error instanceof TypeError) {
      this.record.broken.push({ key, tool });
      return;
    }
    const text = String(error.message);
    if (this.record.stateful && text.includes('404')) this.record.ended = true;
    const retryable = error.data?.retryable === true || text.includes('"retryable":true');
    this.record.rejected.push({ tool, message: text, retryable });
  }

  async run(client, over) {
    for (let number = 0; !over(); number += 1) {
      const tool = TOOLS[number % TOOLS.length];
      const backend = number % 2 === 0 ? 'stateful' : 'stateless';
      const key = `${tool}-${this.name}-${number}`;
      while (!(await this.call(client, `${backend}_${tool}`, key)) && tool !== 'act') await pause();
      await pause();
    }
  }
}

// Runs `count` clients, each connected by `connect`.
export async function run(name, stateful, count, connect) {
  const loads = Array.from({ length: count }, (_, number) => new Load(`${name}-${process.pid}-${number}`, stateful));
  const clients = await Promise.all(loads.map(connect));
  await Promise.all(clients.map((client) => client.listTools()));
  let isOver = false;
  const running = loads.map((load, number) => load.run(clients[number], () => isOver));
  console.log(JSON.stringify('ready'));
  await untilInputEnds();
  isOver = true;
  await Promise.all(running);
  // A pipe takes long output in parts.
  process.stdout.write(`${JSON.stringify(loads.map((load) => load.record))}\n`, () => process.exit(0));
}
