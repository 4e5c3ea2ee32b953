// What both versions of the TypeScript SDK share when they log in. The one who started the script says what to do, one
// JSON object a line, and hears what came of it in the same way:
//
//   {"list": true} and {"call": TOOL}; the answer has what was seen, and what the client knows of its tokens
//   {"authorize": URL} is what somebody else has to do; the next line then has where the browser ended up

import { createInterface } from 'node:readline';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export const tell = (what) => console.log(JSON.stringify(what));

// What keeps the client's registration and tokens. SCOPES is what it registers for; without any, it asks for what it is
// told to.
export class Keeper {
  authorizations = 0;
  tokensSaved = 0;

  constructor(UnauthorizedError, refreshes) {
    this.UnauthorizedError = UnauthorizedError;
    this.refreshes = refreshes;
  }
  get redirectUrl() {
    return 'http://127.0.0.1:9/callback';
  }
  get clientMetadata() {
    return {
      client_name: 'vmcp-tests',
      application_type: 'native',
      redirect_uris: [this.redirectUrl],
      grant_types: this.refreshes ? ['authorization_code', 'refresh_token'] : ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }
  clientInformation() {
    return this.client;
  }
  saveClientInformation(client) {
    this.client = client;
  }
  tokens() {
    return this.kept;
  }
  saveTokens(tokens) {
    this.kept = tokens;
    this.tokensSaved += 1;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  saveDiscoveryState(state) {
    this.discovered = state;
  }
  discoveryState() {
    return this.discovered;
  }
  redirectToAuthorization(url) {
    this.authorizations += 1;
    this.asked = url.href;
  }

  // Does the work; where somebody has to log in first, waits until they have, and does it then.
  async authorized(work, finish) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof this.UnauthorizedError) || this.asked === undefined) throw error;
      tell({ authorize: this.asked });
      this.asked = undefined;
      await finish(new URL((await lines.next()).value).searchParams);
      return await work();
    }
  }
}

// Does what it is told until nothing more comes. `finish` takes the parameters that the browser came back with.
export async function obey(keeper, client, finish) {
  const known = () => ({
    scope: keeper.kept?.scope ?? null,
    authorizations: keeper.authorizations,
    tokens: keeper.tokensSaved,
  });
  tell({ connected: true, ...known() });
  for await (const line of lines) {
    const what = JSON.parse(line);
    try {
      const seen = await keeper.authorized(async () => {
        if (what.call === undefined) return (await client.listTools()).tools.map((tool) => tool.name);
        const result = await client.callTool({ name: what.call, arguments: {} });
        return result.content.map((block) => block.text ?? '');
      }, finish);
      tell({ seen, ...known() });
    } catch (error) {
      tell({ error: `${error}`, ...known() });
    }
  }
}
