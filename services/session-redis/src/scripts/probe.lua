-- Tries each command that the other scripts use, and finds out whether the names are free or ours.
local hash, set = P .. 'probe', P .. 'probe:set'
local commands = {
  { 'TIME' }, { 'HGET', hash, 'x' }, { 'HLEN', hash }, { 'ZCARD', set }, { 'ZCARD', P .. 'ended' },
  { 'HSET', hash, 'x', 1 }, { 'PEXPIRE', hash, 1000 }, { 'HMGET', hash, 'x' }, { 'HGETALL', hash },
  { 'HEXISTS', hash, 'x' }, { 'HSTRLEN', hash, 'x' }, { 'HINCRBY', hash, 'x', 1 }, { 'HDEL', hash, 'y' },
  { 'ZADD', set, 1, 'x' }, { 'PEXPIRE', set, 1000 }, { 'ZSCORE', set, 'x' }, { 'ZMSCORE', set, 'x' },
  { 'ZRANGE', set, 0, -1 }, { 'ZREVRANGEBYSCORE', set, 1, 0 }, { 'ZRANGEBYSCORE', set, 0, 1 },
  { 'ZREM', set, 'y' }, { 'ZREMRANGEBYSCORE', set, 2, 3 }, { 'ZPOPMIN', set },
  { 'PUBLISH', channel, '' }, { 'DEL', hash, set },
}
for _, command in ipairs(commands) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then
    if string.sub(answer.err, 1, 9) == 'WRONGTYPE' then return { 'format', string.sub(command[2], #P + 1) } end
    return { 'denied', command[1], answer.err }
  end
end
if kind(P .. 'format') == 'unknown' then return { 'format', 'format' } end
call('HSET', P .. 'format', 'f', FORMAT)
return { 'ok', text(now()) }
