// Preloaded into programs that speak MCP and have no setting for a token: shows BEARER to the server at ORIGIN, whichever
// way they ask it.

import { Agent, setGlobalDispatcher } from 'undici';

const { BEARER, ORIGIN } = process.env;

const shown = (headers) => {
  const all = [];
  const add = (name, value) => [value].flat().forEach((one) => all.push(name, one));
  if (Array.isArray(headers)) all.push(...headers);
  else for (const [name, value] of headers?.[Symbol.iterator] ? headers : Object.entries(headers ?? {})) add(name, value);
  return [...all, 'authorization', `Bearer ${BEARER}`];
};

setGlobalDispatcher(
  new Agent().compose((dispatch) => (options, handler) => {
    const ours = `${options.origin}` === ORIGIN;
    return dispatch(ours ? { ...options, headers: shown(options.headers) } : options, handler);
  }),
);
