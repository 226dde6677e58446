// An upstream of node:http that prints each request that it has read whole as a line of JSON: first its port, then method, uri, host and
// length of the body, or that it refused one. With the argument "lenient" its parser forgives what it can.
import { createServer } from 'node:http';

const print = (what) => process.stdout.write(JSON.stringify(what) + '\n');
const server = createServer({ insecureHTTPParser: process.argv[2] === 'lenient' }, (req, res) => {
  let body = 0;
  req.on('data', (chunk) => { body += chunk.length; });
  req.on('end', () => {
    if (!req.complete) return;
    print({ method: req.method, uri: Buffer.from(req.url, 'latin1').toString('base64'), host: req.headers.host, body });
    res.end('seen');
  });
});
server.on('clientError', (err, socket) => {
  print({ refused: true });
  if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
});
server.listen(0, '127.0.0.1', () => print({ port: server.address().port }));
