// Preloaded into servers that would listen on every interface: keeps them on the loopback one.

import net from 'node:net';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const plainPort = typeof port === 'number' || (typeof port === 'string' && /^\d+$/.test(port));
  if (plainPort && typeof rest[0] !== 'string') {
    return listen.call(this, { port: Number(port), host: '127.0.0.1' }, ...rest.filter((one) => typeof one === 'function'));
  }
  return listen.call(this, port, ...rest);
};
