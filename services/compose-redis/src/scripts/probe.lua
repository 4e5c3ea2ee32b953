-- Tries each command that the other scripts use, so that a denied one is detected at startup, and reads the format of the keys.
local function failed(command)
  local reply = redis.pcall(unpack(command))
  if type(reply) == 'table' and reply.err then return { 'denied', command[1], reply.err } end
end
local all = P .. 'all'
local kind = redis.pcall('TYPE', all)
if kind.err then return { 'denied', 'TYPE', kind.err } end
if kind.ok ~= 'none' and kind.ok ~= 'hash' then return { 'foreign', all } end
local format = redis.pcall('HGET', all, 'f')
if type(format) == 'table' and format.err then return { 'denied', 'HGET', format.err } end
if kind.ok == 'hash' and format ~= FORMAT then return { 'format', all, format or 'none' } end
local hash, set, list = P .. 'probe:hash', P .. 'probe:set', P .. 'probe:list'
local commands = {
  { 'HSET', hash, 'x', 1 }, { 'HGET', hash, 'x' }, { 'HMGET', hash, 'x' }, { 'HINCRBY', hash, 'x', 1 },
  { 'HDEL', hash, 'y' }, { 'EXISTS', hash }, { 'PEXPIRE', hash, 1000 }, { 'ZADD', set, 1, 'x' }, { 'ZRANGE', set, 0, -1 },
  { 'ZREVRANGE', set, 0, -1 }, { 'ZRANGEBYSCORE', set, 2, 3 }, { 'ZREM', set, 'y' }, { 'RPUSH', list, 'x' },
  { 'LRANGE', list, 0, -1 }, { 'DEL', hash, set, list },
}
for _, command in ipairs(commands) do
  local denied = failed(command)
  if denied then return denied end
end
return { 'ok' }
