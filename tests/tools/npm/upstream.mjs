// An identity provider at http://127.0.0.1:PORT for servers that send their users to log in elsewhere, or at https://
// with the certificate and key in these files (PEM). People log in with whatever name they give. With `rotates` a refresh
// token is good for one refresh.
//
// Each known client authenticates in another way; its secret has characters that encodings differ on. Others register
// with the initial access token 1nitial.
//
// usage: upstream.mjs PORT (rotates|keeps) CALLBACK [CERTIFICATE KEY]

import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import Provider from 'oidc-provider';

const [port, rotates, callback, certificate, keyFile] = process.argv.slice(2);
const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });

const client = (name, method) => ({
  client_id: name,
  ...(method === 'none' ? {} : { client_secret: `${name}: s3cr3t+/%` }),
  token_endpoint_auth_method: method,
  application_type: 'native',
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  redirect_uris: [callback],
});

const provider = new Provider(`${certificate ? 'https' : 'http'}://127.0.0.1:${port}`, {
  clients: [
    client('basic', 'client_secret_basic'),
    client('post', 'client_secret_post'),
    client('public', 'none'),
  ],
  jwks: { keys: [{ ...key, use: 'sig' }] },
  claims: { openid: ['sub'], profile: ['name'], email: ['email', 'email_verified'] },
  features: {
    registration: { enabled: true, initialAccessToken: '1nitial' },
    revocation: { enabled: true },
  },
  rotateRefreshToken: rotates === 'rotates',
  findAccount: (_, accountId) => ({
    accountId,
    claims: () => ({
      sub: accountId,
      name: `The ${accountId}`,
      email: `${accountId}@example.com`,
      email_verified: accountId !== 'mallory',
    }),
  }),
});

const server = certificate
  ? createSecureServer({ cert: readFileSync(certificate), key: readFileSync(keyFile) }, provider.callback())
  : createServer(provider.callback());
server.listen(Number(port), '127.0.0.1');
