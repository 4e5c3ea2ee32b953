// An identity provider at http://127.0.0.1:PORT whose signing keys are in the file KEYS.
//
// Every start adds new keys at the front of the file, and the older ones are still published: a restart is a rotation.
// The client alice gets tokens for https://mcp.example/mcp by her credentials; the resource that she asks for,
// urn:token:KIND, says of which kind. The client gateway introspects; its secret has characters that encodings
// differ on.

import { generateKeyPairSync } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import Provider from "oidc-provider";

const [, , portText, file] = process.argv;
const port = Number(portText);

const fresh = (...pair) => generateKeyPairSync(...pair).privateKey.export({ format: "jwk" });
const older = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
const keys = [
  { ...fresh("rsa", { modulusLength: 2048 }), use: "sig" },
  { ...fresh("ec", { namedCurve: "P-256" }), use: "sig" },
  { ...fresh("ed25519"), use: "sig" },
  ...older,
];
writeFileSync(file, JSON.stringify(keys));

const client = (name, ...grants) => ({
  client_id: name,
  client_secret: `${name}: s3cr3t+/%`,
  token_endpoint_auth_method: "client_secret_basic",
  grant_types: grants,
  redirect_uris: [],
  response_types: [],
});

const resource = (_, indicator) => {
  const kind = indicator.slice("urn:token:".length);
  const audience = kind === "foreign" ? "https://other.example" : "https://mcp.example/mcp";
  const common = { audience, scope: "mcp:call", accessTokenTTL: 3600 };
  if (kind === "opaque") return { ...common, accessTokenFormat: "opaque" };
  const alg = kind === "foreign" ? "RS256" : kind;
  return { ...common, accessTokenFormat: "jwt", jwt: { sign: { alg } } };
};

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [client("alice", "client_credentials"), client("gateway", "client_credentials")],
  jwks: { keys },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    resourceIndicators: { enabled: true, getResourceServerInfo: resource },
  },
  enabledJWA: { userinfoSigningAlgValues: ["RS256", "ES256", "Ed25519"] },
  extraTokenClaims: (_, token) => ({ sub: token.clientId, groups: ["ops"] }),
});

provider.listen(port, "127.0.0.1");
