// An authorization server that exchanges tokens (RFC 8693) at http://127.0.0.1:PORT/token.
//
// Client authentication, parameters, signing and error answers are oidc-provider's; the grant alone is written here.
// What the clients ann and bob get with their credentials stands for users' tokens. Secrets have characters that
// encodings differ on.

import Provider, { errors } from "oidc-provider";

const port = Number(process.argv[2]);
const exchange = "urn:ietf:params:oauth:grant-type:token-exchange";
const accessToken = "urn:ietf:params:oauth:token-type:access_token";

const client = (name, method, ...grants) => ({
  client_id: name,
  client_secret: `${name}: s3cr3t+/%`,
  token_endpoint_auth_method: method,
  grant_types: grants,
  redirect_uris: [],
  response_types: [],
});

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    client("ann", "client_secret_basic", "client_credentials"),
    client("bob", "client_secret_basic", "client_credentials"),
    client("gateway", "client_secret_basic", "client_credentials", exchange),
    client("gateway-post", "client_secret_post", exchange),
    { ...client("gateway-public", "none", exchange), client_secret: undefined },
  ],
  features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
  scopes: ["read", "write"],
  extraTokenClaims: (ctx) => ({ exchanged_for: ctx.oidc.exchangedFor }),
});

provider.registerGrantType(
  exchange,
  async (ctx) => {
    const { params, client } = ctx.oidc;
    const subject = await provider.ClientCredentials.find(params.subject_token ?? "");
    if (!subject || params.subject_token_type !== accessToken) throw new errors.InvalidGrant("no such token");
    if (params.requested_token_type !== accessToken) throw new errors.InvalidRequest("access tokens only");
    if (params.audience !== "files") throw new errors.InvalidTarget("no such audience");
    ctx.oidc.exchangedFor = subject.clientId;
    const token = new provider.ClientCredentials({ client, scope: params.scope });
    token.resourceServer = new provider.ResourceServer(params.resource, {
      scope: "read write",
      audience: params.audience,
      accessTokenFormat: "jwt",
    });
    ctx.body = {
      access_token: await token.save(),
      issued_token_type: accessToken,
      token_type: "Bearer",
      expires_in: token.expiration,
      scope: token.scope,
    };
  },
  ["subject_token", "subject_token_type", "requested_token_type", "audience", "resource", "scope"],
);

provider.listen(port, "127.0.0.1");
