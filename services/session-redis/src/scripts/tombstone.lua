-- Shared by the steps that write tombstones. The set of an owner has a session's identifier by its start, and "*" by the time
-- until which all sessions have ended. The set "ended" has all tombstones in the order in which they were written.
local MAX = 1000

-- Adds to the order, with a score that no other one has, and tells the replicas. Returns the score.
local function announce(member)
  local time = now()
  call('ZREMRANGEBYSCORE', P .. 'ended', '-inf', '(' .. text(time - lifetime * 1000000))
  local last = call('ZREVRANGEBYSCORE', P .. 'ended', MAX_SCORE, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local score = text(math.max(time, last[2] and tonumber(last[2]) + 1 or 0))
  call('ZADD', P .. 'ended', score, member)
  call('PEXPIRE', P .. 'ended', lifetime * 1000)
  publish('end ' .. score .. ' ' .. member)
  return score
end

local function forget(owner, name, time)
  call('ZREM', P .. 'ended', name .. ' ' .. owner .. ' ' .. time)
end

-- Ends all sessions of an owner that began until a time, and as long as those that have ended. Returns the tombstone.
local function end_all(owner, time)
  local graves = P .. 'owner:' .. owner
  local known = call('ZRANGE', graves, 0, -1, 'WITHSCORES')
  for i = 1, #known, 2 do
    time = math.max(time, tonumber(known[i + 1]))
    forget(owner, known[i], known[i + 1])
  end
  call('DEL', graves)
  call('ZADD', graves, text(time), '*')
  call('PEXPIRE', graves, lifetime * 1000)
  local member = '* ' .. owner .. ' ' .. text(time)
  announce(member)
  return member
end

-- Ends a session that has not ended. Returns the tombstone.
local function end_one(id, owner, issued, anonymous)
  local graves = P .. 'owner:' .. owner
  local millis = math.floor(now() / 1000)
  -- A removal comes first: then a full server accepts the tombstone too.
  call('ZREMRANGEBYSCORE', graves, '-inf', '(' .. text(millis - lifetime * 1000))
  local count = call('ZCARD', graves) - (call('ZSCORE', graves, '*') and 1 or 0)
  if count >= MAX then
    if not anonymous then return end_all(owner, tonumber(issued)) end
    -- Anonymous callers are many people: one of them must not end the sessions of the others.
    local oldest = call('ZPOPMIN', graves)
    forget(owner, oldest[1], oldest[2])
  end
  call('ZADD', graves, issued, id)
  call('PEXPIRE', graves, lifetime * 1000)
  local member = id .. ' ' .. owner .. ' ' .. issued
  announce(member)
  return member
end
