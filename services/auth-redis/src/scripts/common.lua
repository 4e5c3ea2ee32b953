-- Shared by all scripts. KEYS[1] is the prefix of all keys and puts them into one slot. Each record is a
-- hash whose field x is its expiry by the callers' clock; the TTL of the key deletes it. A sorted set per
-- kind has the names of its records by expiry, for the limit and the gauge.
local P = KEYS[1]
local now, remembered = tonumber(ARGV[1]), tonumber(ARGV[2])
local A = { unpack(ARGV, 3) }
local call = redis.call

local function lapse(key, at)
  call('PEXPIRE', key, math.max(1, at - now))
end

local function alive(key)
  local x = call('HGET', key, 'x')
  return x and tonumber(x) > now
end

local function full(index, name, cap)
  call('ZREMRANGEBYSCORE', P .. index, '-inf', now)
  return not call('ZSCORE', P .. index, name) and call('ZCARD', P .. index) >= tonumber(cap)
end

local function enlist(index, name, at)
  call('ZADD', P .. index, at, name)
  if call('PTTL', P .. index) < at - now then lapse(P .. index, at) end
end

-- Replaces a record.
local function write(kind, index, name, at, ...)
  local key = P .. kind .. name
  call('DEL', key)
  call('HSET', key, 'x', at, ...)
  lapse(key, at)
  enlist(index, name, at)
end

-- Changes the expiry of a record.
local function move(kind, index, name, at)
  call('HSET', P .. kind .. name, 'x', at)
  lapse(P .. kind .. name, at)
  enlist(index, name, at)
end

local function erase(kind, index, name)
  call('DEL', P .. kind .. name)
  call('ZREM', P .. index, name)
end

local function client(name)
  return alive(P .. 'client:' .. name) and call('HGET', P .. 'client:' .. name, 'd')
end

-- Records that a client presented a credential of its own: a new client becomes a known one, which a flood
-- of registrations cannot evict, if there is room.
local function renew(name, lifetime, cap, rest)
  if not alive(P .. 'client:' .. name) then return end
  local at = now + lifetime
  if full('clients', name, cap) then
    -- All lifetimes are equal: the first client to expire has been unused for longest.
    local first = call('ZRANGE', P .. 'clients', 0, 0, 'WITHSCORES')
    if not first[1] or tonumber(first[2]) > at - rest then return end
    erase('client:', 'clients', first[1])
  end
  call('ZREM', P .. 'new-clients', name)
  move('client:', 'clients', name, at)
end

-- Extends a new client to at least the given time.
local function hold(name, at)
  local x = call('ZSCORE', P .. 'new-clients', name)
  if x and tonumber(x) < at and alive(P .. 'client:' .. name) then
    move('client:', 'new-clients', name, at)
  end
end

-- Returns the members of an index to evict for one more: the first to expire.
local function beyond(index, cap)
  call('ZREMRANGEBYSCORE', P .. index, '-inf', now)
  local extra = call('ZCARD', P .. index) - math.max(1, tonumber(cap)) + 1
  return extra > 0 and call('ZRANGE', P .. index, 0, extra - 1) or {}
end

-- Extends a session to at least the given time. Returns whether it exists.
local function keep(session, at)
  local key = P .. 'session:' .. session
  local x, user = unpack(call('HMGET', key, 'x', 'u'))
  if not x or tonumber(x) <= now then return false end
  if tonumber(x) < at then
    move('session:', 'sessions', session, at)
    enlist('sessions-of:' .. user, session, at)
  end
  return true
end

local function saying(session, grant)
  return session .. ' ' .. (grant or '-') .. ' ' .. string.format('%.0f', now)
end

-- Ends a session and its grant, and publishes the revocation. Returns it; false if neither exists.
local function finish(session, grant)
  local key = P .. 'session:' .. session
  local there = alive(key)
  local user, granted = unpack(call('HMGET', key, 'u', 'g'))
  if user then
    erase('session:', 'sessions', session)
    call('ZREM', P .. 'sessions-of:' .. user, session)
  end
  grant = grant or (there and granted)
  local ended = grant and alive(P .. 'grant:' .. grant)
  if grant then erase('grant:', 'grants', grant) end
  if not there and not ended then return false end
  local said = saying(session, grant)
  call('ZREMRANGEBYSCORE', P .. 'revoked', '-inf', now)
  -- Bounded by time alone: evicting a revocation would make its access tokens valid again.
  enlist('revoked', said, now + remembered)
  call('PUBLISH', P .. 'revocations', said)
  return said
end
