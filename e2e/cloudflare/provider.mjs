// An authorization server that we did not write: Cloudflare's workers-oauth-provider in workerd. It redeems identity assertion grants
// (ID-JAG) and exchanges its own tokens; all that is checked, it checks itself.
//
// The first line of stdin is {"issuer": whose grants are believed}, the second its JWKS; the process ends when stdin does. The first line
// of stdout is {"url": …, "clientID": …, "clientSecret": …}.
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Miniflare, Response } from 'miniflare';

const lines = createInterface({ input: process.stdin });
const [firstLine] = await once(lines, 'line');
const { issuer } = JSON.parse(firstLine);
let jwks = { keys: [] };
lines.on('line', (line) => { jwks = JSON.parse(line); });

const worker = `
import { OAuthProvider } from './oauth-provider.js';
const issuer = ${JSON.stringify(issuer)};
const whoami = { fetch: (request, env, ctx) => Response.json(ctx.props) };
const setup = { async fetch(request, env) {
  if (new URL(request.url).pathname !== '/setup') return new Response(null, { status: 404 });
  const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
  return Response.json(await env.OAUTH_PROVIDER.createClient({
    clientName: 'sidecar', redirectUris: ['https://sidecar.test/none'], tokenEndpointAuthMethod: 'client_secret_basic',
    grantTypes: ['authorization_code', exchange, 'urn:ietf:params:oauth:grant-type:jwt-bearer'],
  }));
} };
const make = (origin) => new OAuthProvider({
  apiRoute: '/api', apiHandler: whoami, defaultHandler: setup, authorizeEndpoint: '/authorize', tokenEndpoint: '/token',
  resourceMetadata: { resource: origin + '/api' },
  allowTokenExchangeGrant: true,
  enterpriseManagedAuthorization: {
    trustedIssuers: async ({ iss }) => iss === issuer ? { issuer, jwksUri: issuer + '/jwks', algorithms: ['ES256'] } : null,
    mapClaims: async ({ claims, requestedScope }) => ({
      userId: 'local-' + claims.sub.replaceAll(':', '-'), scope: requestedScope, props: { sub: claims.sub, scope: requestedScope },
    }),
  },
});
let provider;
export default { fetch(request, env, ctx) {
  provider ??= make(new URL(request.url).origin);
  return provider.fetch(request, env, ctx);
} };
`;

const library = createRequire(import.meta.url).resolve('@cloudflare/workers-oauth-provider');
const mf = new Miniflare({
  host: '127.0.0.1', port: 0, cf: false, compatibilityDate: '2026-01-01', kvNamespaces: ['OAUTH_KV'],
  modules: [
    { type: 'ESModule', path: 'worker.mjs', contents: worker },
    { type: 'ESModule', path: 'oauth-provider.js', contents: readFileSync(library, 'utf8') },
  ],
  // All that the worker fetches is the issuer's keys.
  outboundService: (request) => request.url === `${issuer}/jwks` ? Response.json(jwks) : new Response(null, { status: 404 }),
});
lines.on('close', () => mf.dispose().finally(() => process.exit(0)));
const url = (await mf.ready).origin;
const client = await (await fetch(`${url}/setup`)).json();
console.log(JSON.stringify({ url, clientID: client.clientId, clientSecret: client.clientSecret }));
