// What both versions of the TypeScript SDK share when they call tools in order and answer their questions. The plan is that
// of calls.py.

const INVALID_PARAMS = -32602;

export class Calls {
  answers = {};
  asked = [];
  refused = [];

  answer({ message }) {
    this.asked.push(message);
    return this.answers[message.split('\n')[0]].shift();
  }

  async rounds(client, params) {
    let requests, more = {};
    for (;;) {
      try {
        const result = await client.callTool({ ...params, ...more }, { allowInputRequired: true });
        if (result.resultType !== 'input_required') return result;
        requests = result.inputRequests;
        more = { requestState: result.requestState };
      } catch (error) {
        if (error.code !== INVALID_PARAMS || requests === undefined) throw error;
        this.refused.push(error.message);
      }
      const answers = Object.entries(requests).map(([key, request]) => [key, this.answer(request.params)]);
      more.inputResponses = Object.fromEntries(answers);
    }
  }

  async call(client, { tool, arguments: args, manual }) {
    const params = { name: tool, arguments: args };
    try {
      const result = await (manual ? this.rounds(client, params) : client.callTool(params));
      const text = result.content.map((block) => block.text ?? '').join('');
      return { text, structured: result.structuredContent ?? null, failed: result.isError === true };
    } catch (error) {
      return { error: error.message };
    }
  }

  async run(client, plan) {
    const tools = (await client.listTools()).tools.map((tool) => tool.name);
    const results = [];
    for (const wanted of plan.calls) {
      this.answers = wanted.answers;
      this.asked = [];
      this.refused = [];
      const result = await this.call(client, wanted);
      results.push({ asked: this.asked, refused: this.refused, ...result });
    }
    console.log(JSON.stringify({ tools, results }));
  }
}

// The options of a transport that carries the plan's token.
export const options = ({ token }) => (token ? { requestInit: { headers: { authorization: `Bearer ${token}` } } } : {});
