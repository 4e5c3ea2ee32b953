// An identity provider at http://127.0.0.1:PORT that people log in at, with whatever name they give, from clients that
// register themselves.
//
// What a client asks for with RESOURCE is a JWT for it. Its access tokens are good for TTL seconds, by a clock that is
// LATE seconds late: for whom allows for so much, a token's life can be as short as a test wants it.
//
// usage: login.mjs PORT RESOURCE TTL LATE

import { generateKeyPairSync } from "node:crypto";
import Provider from "oidc-provider";

const [port, resource, ttl, late] = process.argv.slice(2);
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
      getResourceServerInfo: (_, indicator) => ({
        audience: indicator === resource ? resource : "https://other.example",
        scope: "tools admin",
        accessTokenTTL: Number(ttl),
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
});

provider.listen(Number(port), "127.0.0.1");
