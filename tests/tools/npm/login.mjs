// An identity provider at http://127.0.0.1:PORT that people log in at, with whatever name they give, from clients that
// register themselves.
//
// Tokens are JWTs for the resource that the client asks for. They are good for TTL seconds by a clock that is LATE seconds
// late: where a gateway allows for so much, a token's life is as short as a test wants it.
//
// usage: login.mjs PORT TTL LATE

import { generateKeyPairSync } from "node:crypto";
import Provider from "oidc-provider";

const [port, ttl, late] = process.argv.slice(2);
const now = Date.now;
Date.now = () => now() - Number(late) * 1000;

const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...key, use: "sig" }] },
  scopes: ["openid", "offline_access", "tools", "admin"],
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, audience) => ({
        audience,
        scope: "tools admin",
        accessTokenTTL: Number(ttl),
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
  // Clients register the scopes that they begin with; none of them is to be kept from asking for more.
  extraClientMetadata: {
    properties: ["registered_scope"],
    validator: (_ctx, _key, _value, metadata) => delete metadata.scope,
  },
  // To whom registers for them, whether or not it asks for offline access.
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  // Version 1 of the TypeScript SDK may renew a token twice at the same time, which looks like theft where they rotate.
  rotateRefreshToken: false,
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
});

provider.listen(Number(port), "127.0.0.1");
