-- Shared by all scripts. KEYS[1] is the prefix of all keys and puts them into one slot.
local P = KEYS[1]
local FORMAT = '1'
local call = redis.call
local offset, lease, lifetime, ended_lifetime = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local limits = {
  runs = tonumber(ARGV[5]), owner_runs = tonumber(ARGV[6]),
  bytes = tonumber(ARGV[7]), owner_bytes = tonumber(ARGV[8]),
}
local A = { unpack(ARGV, 9) }

-- One clock for all replicas. Tests advance it by the offset.
local time = redis.pcall('TIME')
if time.err then return { 'denied', 'TIME', time.err } end
local now = time[1] * 1000 + math.floor(time[2] / 1000) + offset

-- Redis deletes what no replica sweeps, a day later than a replica would.
local TTL = lease + math.max(lifetime, ended_lifetime) + 24 * 60 * 60 * 1000

local function extend(...)
  for _, key in ipairs({ ... }) do call('PEXPIRE', P .. key, TTL) end
end

-- Returns the record's fields in clear, or nil and the status of the step if there is none to use.
local function metadata(id)
  local f = call('HMGET', P .. 'run:' .. id, 'f', 'o', 's', 'e', 'h', 'l', 'v', 'x')
  if not f[1] then return nil, 'gone' end
  if f[1] ~= FORMAT then return nil, 'format' end
  local run = { owner = f[2], status = f[3], epoch = tonumber(f[4]), holder = f[5], leased_until = tonumber(f[6]),
    version = tonumber(f[7]) }
  local expires_at = tonumber(f[8])
  if not (run.epoch and run.leased_until and run.version and expires_at) then return nil, 'format' end
  if now >= expires_at then return nil, 'gone' end
  run.ended = run.status ~= 'running' and run.status ~= 'input_required'
  return run
end

-- Returns the status as readers see it.
local function visible_status(run)
  if run.status == 'running' and now >= run.leased_until then return 'interrupted' end
  return run.status
end

-- Sizes and numbers of a run, which are counted for its owner and for all.
local function account(id)
  local text = call('HGET', P .. 'sizes', id)
  if not text then return nil end
  local owner, number, bytes, result, ended, waits = string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d)$')
  return { owner = owner, number = tonumber(number), bytes = tonumber(bytes), result = tonumber(result),
    ended = tonumber(ended), waits = tonumber(waits) }
end

local function put_account(id, a)
  local text = string.format('%s %.0f %.0f %.0f %.0f %d', a.owner, a.number, a.bytes, a.result, a.ended, a.waits)
  call('HSET', P .. 'sizes', id, text)
end

local function count(owner, field, by)
  if by == 0 then return end
  call('HINCRBY', P .. 'all', field, by)
  call('HINCRBY', P .. 'usage:' .. owner, field, by)
end

local function usage(key)
  local u = call('HMGET', P .. key, 'runs', 'ended', 'bytes', 'ended_bytes')
  return { runs = tonumber(u[1] or 0), ended = tonumber(u[2] or 0), bytes = tonumber(u[3] or 0),
    ended_bytes = tonumber(u[4] or 0) }
end

-- Ranks an owner that has kept results by the size of its runs.
local function rank(owner)
  if call('EXISTS', P .. 'kept:' .. owner) == 1 then
    call('ZADD', P .. 'kept-owners', call('HGET', P .. 'usage:' .. owner, 'bytes') or 0, owner)
  else
    call('ZREM', P .. 'kept-owners', owner)
  end
end

-- Changes size and state of a run that has not ended.
local function resize(id, a, bytes, waits)
  count(a.owner, 'bytes', bytes - a.bytes)
  if waits ~= a.waits then call('HINCRBY', P .. 'all', 'waiting', waits - a.waits) end
  if bytes ~= a.bytes then rank(a.owner) end
  a.bytes, a.waits = bytes, waits
  put_account(id, a)
end

local function member(number, id)
  return string.format('%016.0f:', number) .. id
end

-- Removes a run, also one that Redis has deleted already.
local function remove(id)
  call('DEL', P .. 'run:' .. id, P .. 'changes:' .. id)
  call('ZREM', P .. 'expiry', id)
  local a = account(id)
  if not a then return end
  call('HDEL', P .. 'sizes', id)
  call('ZREM', P .. 'runs:' .. a.owner, member(a.number, id))
  count(a.owner, 'runs', -1)
  count(a.owner, 'bytes', -a.bytes)
  if a.waits == 1 then call('HINCRBY', P .. 'all', 'waiting', -1) end
  if a.ended > 0 then
    count(a.owner, 'ended', -1)
    count(a.owner, 'ended_bytes', -a.bytes)
    call('ZREM', P .. 'ended', id)
    call('ZREM', P .. 'ended:' .. a.owner, id)
    call('ZREM', P .. 'kept:' .. a.owner, id)
  end
  rank(a.owner)
  if tonumber(call('HGET', P .. 'usage:' .. a.owner, 'runs')) <= 0 then call('DEL', P .. 'usage:' .. a.owner) end
end

-- Removes up to `most` expired runs. Others are absent for readers before.
local function sweep(most)
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'expiry', '-inf', now, 'LIMIT', 0, most)) do remove(id) end
end

-- Sets the end of the lease (0 gives it back), and the time at which the run expires.
local function touch(id, leased_until, kept_for)
  local at = math.max(now, leased_until) + kept_for
  call('HSET', P .. 'run:' .. id, 'l', leased_until, 'x', at)
  call('ZADD', P .. 'expiry', at, id)
  extend('run:' .. id, 'changes:' .. id)
end

-- Extends the keys of several runs. A commit does not: a lease is renewed far more often than once a day.
local function extend_shared(owner)
  extend('all', 'sizes', 'expiry', 'ended', 'kept-owners', 'usage:' .. owner, 'runs:' .. owner, 'ended:' .. owner,
    'kept:' .. owner)
end
