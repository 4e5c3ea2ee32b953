-- Tries each command that the other scripts use, so that a denied one is detected at startup.
local hash, set = P .. 'probe:hash', P .. 'probe:set'
local commands = {
  { 'HSET', hash, 'x', 1 }, { 'HGET', hash, 'x' }, { 'HMGET', hash, 'x' }, { 'HGETALL', hash },
  { 'HKEYS', hash }, { 'HVALS', hash }, { 'HEXISTS', hash, 'x' }, { 'HINCRBY', hash, 'x', 1 },
  { 'HDEL', hash, 'y' }, { 'PEXPIRE', hash, 1000 }, { 'PTTL', hash },
  { 'ZADD', set, 1, 'x' }, { 'ZSCORE', set, 'x' }, { 'ZCARD', set }, { 'ZRANGE', set, 0, -1 },
  { 'ZREM', set, 'y' }, { 'ZREMRANGEBYSCORE', set, 2, 3 }, { 'ZREMRANGEBYRANK', set, 5, 6 },
  { 'PUBLISH', P .. 'probe', '' }, { 'DEL', hash, set },
}
for _, command in ipairs(commands) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then return { command[1], answer.err } end
end
return {}
