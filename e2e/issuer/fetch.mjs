// A tool written for Node: one fetch through the proxy that HTTPS_PROXY names. Prints the body, or the error with its causes.
import { EnvHttpProxyAgent, fetch } from 'undici';

const [url, token] = process.argv.slice(2);
const headers = token ? { 'Toolgate-Authorization': `Bearer ${token}` } : {};
try {
  const res = await fetch(url, { headers, dispatcher: new EnvHttpProxyAgent() });
  console.log(res.status, await res.text());
  process.exit(res.ok ? 0 : 1);
} catch (err) {
  for (let e = err; e; e = e.cause) console.error(String(e));
  process.exit(1);
}
