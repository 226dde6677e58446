// An authorization server that shares no code with Toolgate: oidc-provider with RFC 8693 token exchange as one more
// grant type. Client authentication, replay detection, JWT access tokens and the JWKS are oidc-provider's own.
//
// The first line of stdin is the configuration as JSON; the process ends when stdin does, so that it cannot outlive the
// test that started it. The first line of stdout is the issuer's URL.
//
//   {clients:   [client metadata, RFC 7591],
//    subject:   {issuer, audience, jwks},        whose subject tokens are believed
//    actor:     {issuer, audience, jwks},        and whose actor tokens
//    resources: {"https://api.example": "scope-a scope-b"},
//    people:    {"u-1": {email: "alice@example.com"}},  who can log in, with their claims
//    login:     "u-1",                            which of them does, without being asked; missing: nobody, access_denied
//    nonce:     true,                             proofs of DPoP need a nonce
//    grants:    {issuer, clients: {"https://as.example": "client id there"}}}
//                                                 who gives identity assertion grants (ID-JAG) under that name, and to whom they are
//
// DPoP at the token endpoint and at /me, introspection and revocation are oidc-provider's own, too. A token for the audience "userinfo"
// is opaque and good for /me.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Provider, errors } from 'oidc-provider';
import validateDpop from 'oidc-provider/lib/helpers/validate_dpop.js';
import { applyDpopBinding } from 'oidc-provider/lib/helpers/grant_common.js';
import * as jose from 'jose';

const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const jwtType = 'urn:ietf:params:oauth:token-type:jwt';
const grantType = 'urn:ietf:params:oauth:token-type:id-jag';
const accessTokenType = 'urn:ietf:params:oauth:token-type:access_token';

const lines = createInterface({ input: process.stdin });
const [firstLine] = await once(lines, 'line');
lines.on('close', () => process.exit(0));
const config = JSON.parse(firstLine);

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const url = `http://127.0.0.1:${server.address().port}`;

function resourceServer(ctx, id) {
  if (!Object.hasOwn(config.resources, id)) throw new errors.InvalidTarget();
  return {
    audience: id,
    scope: config.resources[id],
    accessTokenFormat: 'jwt',
    accessTokenTTL: 120,
    jwt: { sign: { alg: 'ES256' } },
  };
}

const { privateKey } = await jose.generateKeyPair('ES256', { extractable: true });
const provider = new Provider(url, {
  clients: config.clients.map((c) => ({ grant_types: [exchange], redirect_uris: [], response_types: [], ...c })),
  clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  conformIdTokenClaims: false,
  cookies: { keys: [crypto.randomUUID()] },
  extraTokenClaims: (ctx) => ({ act: ctx.state.act }),
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, ...config.people?.[id] }) }),
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: false },
    dPoP: { enabled: true, nonceSecret: crypto.getRandomValues(Buffer.alloc(32)), requireNonce: () => config.nonce === true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: { enabled: true, getResourceServerInfo: resourceServer },
  },
  jwks: { keys: [{ ...await jose.exportJWK(privateKey), use: 'sig', alg: 'ES256', kid: 'e2e' }] },
});

provider.proxy = true; // an upstream that ends TLS may stand before /me

async function verify(name, params, trusted) {
  if (params[`${name}_type`] !== jwtType) throw new errors.InvalidRequest(`${name}_type is not supported`);
  try {
    const { payload } = await jose.jwtVerify(params[name], jose.createLocalJWKSet(trusted.jwks), {
      issuer: trusted.issuer,
      audience: trusted.audience,
      algorithms: ['ES256'],
      requiredClaims: ['sub', 'exp'],
    });
    return payload;
  } catch (err) {
    throw new errors.InvalidRequest(`${name} is not accepted: ${err.code}`);
  }
}

// target is the one resource server that audience and resource name.
function target(ctx, { audience, resource }) {
  const names = new Set([audience, resource].flat().filter(Boolean));
  if (names.size !== 1) throw new errors.InvalidTarget();
  const [id] = names;
  return new provider.ResourceServer(id, resourceServer(ctx, id));
}

function narrowed(scope, rs) {
  const asked = (scope ?? '').split(' ').filter(Boolean);
  if (asked.length === 0) throw new errors.InvalidScope('scope is missing');
  const beyond = asked.filter((s) => !rs.scopes.has(s));
  if (beyond.length) throw new errors.InvalidScope('scope is not for this resource', beyond.join(' '));
  return asked.join(' ');
}

function checkMayAct(subject, actor) {
  const may = subject.may_act;
  if (may && (may.sub !== actor.sub || (may.iss && may.iss !== actor.iss))) {
    throw new errors.InvalidRequest('the actor may not act for this subject');
  }
}

async function tokenExchange(ctx) {
  const { client, params } = ctx.oidc;
  const subject = await verify('subject_token', params, config.subject);
  if (params.requested_token_type === grantType) return grant(ctx, subject);
  if ((params.requested_token_type ?? accessTokenType) !== accessTokenType) {
    throw new errors.InvalidRequest('requested_token_type is not supported');
  }
  const actor = await verify('actor_token', params, config.actor);
  checkMayAct(subject, actor);
  const dPoP = await validateDpop(provider, ctx);
  if (params.audience === 'userinfo') return userinfoToken(ctx, subject, dPoP);
  const rs = target(ctx, params);
  ctx.state.act = { sub: actor.sub, iss: actor.iss, ...(subject.act && { act: subject.act }) };
  const token = new provider.AccessToken({
    accountId: subject.sub, client, gty: 'token_exchange', resourceServer: rs, scope: narrowed(params.scope, rs),
  });
  await answer(ctx, token, dPoP);
}

async function answer(ctx, token, dPoP) {
  await applyDpopBinding(provider, ctx, dPoP, token);
  ctx.body = {
    access_token: await token.save(),
    issued_token_type: accessTokenType,
    token_type: token.tokenType,
    expires_in: token.expiration,
    scope: token.scope,
  };
}

// userinfoToken gives an opaque token for /me.
async function userinfoToken(ctx, subject, dPoP) {
  const { client } = ctx.oidc;
  const consent = new provider.Grant({ accountId: subject.sub, clientId: client.clientId });
  consent.addOIDCScope('openid');
  const token = new provider.AccessToken({
    accountId: subject.sub, client, grantId: await consent.save(), gty: 'token_exchange', scope: 'openid',
  });
  await answer(ctx, token, dPoP);
}

// grant gives an identity assertion grant (draft-ietf-oauth-identity-assertion-authz-grant-04, section 4.3).
async function grant(ctx, subject) {
  const { audience, resource, scope } = ctx.oidc.params;
  const clients = config.grants?.clients ?? {};
  if (!Object.hasOwn(clients, audience)) throw new errors.InvalidTarget();
  const actor = ctx.oidc.params.actor_token && await verify('actor_token', ctx.oidc.params, config.actor);
  checkMayAct(subject, actor ?? {});
  const jwt = new jose.SignJWT({ client_id: clients[audience], scope, resource, act: actor && { sub: actor.sub, iss: actor.iss } })
    .setProtectedHeader({ alg: 'ES256', kid: 'e2e', typ: 'oauth-id-jag+jwt' })
    .setIssuer(config.grants.issuer).setSubject(subject.sub).setAudience(audience)
    .setJti(crypto.randomUUID()).setIssuedAt().setExpirationTime('2m');
  ctx.body = { access_token: await jwt.sign(privateKey), issued_token_type: grantType, token_type: 'N_A', expires_in: 120, scope };
}

provider.registerGrantType(exchange, tokenExchange, [
  'subject_token', 'subject_token_type', 'actor_token', 'actor_token_type', 'requested_token_type',
  'audience', 'resource', 'scope',
], ['audience', 'resource']);
for (const event of ['grant.error', 'server_error']) {
  provider.on(event, (ctx, err) => console.error(event, err.error ?? err, err.error_description ?? ''));
}

// interact answers what oidc-provider would ask a person.
async function interact(req, res) {
  const { prompt, params, session } = await provider.interactionDetails(req, res);
  if (prompt.name === 'login') {
    const answer = config.login ? { login: { accountId: config.login } } : { error: 'access_denied', error_description: 'nobody logs in' };
    return provider.interactionFinished(req, res, answer);
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

const callback = provider.callback();
server.on('request', (req, res) => {
  if (!req.url.startsWith('/interaction/')) return callback(req, res);
  return interact(req, res).catch((err) => {
    console.error('interaction', err);
    res.writeHead(500).end();
  });
});
console.log(url);
