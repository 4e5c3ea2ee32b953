-- Shared by all scripts. KEYS[1] is the prefix of all keys and puts them into one slot. Times are those of this server.
local P, me = KEYS[1], ARGV[1]
local ttl, window, lifetime = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local channel, A = ARGV[5], {}
-- Not `unpack`, which fails for some thousands of values.
for i = 6, #ARGV do A[i - 5] = ARGV[i] end
local call, FORMAT = redis.call, '1'

-- Largest integer that scores and Lua represent exactly.
local MAX_SCORE = '9007199254740991'

local function text(number)
  return string.format('%.0f', number)
end

-- Returns the time in microseconds.
local function now()
  local time = call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function publish(message)
  call('PUBLISH', channel, FORMAT .. ' ' .. message)
end

-- Returns whether a session has ended, by its own tombstone or by one of all earlier sessions of its owner.
local function has_ended(id, owner, issued)
  local scores = call('ZMSCORE', P .. 'owner:' .. owner, id, '*')
  if id ~= '*' and scores[1] then return true end
  return scores[2] and tonumber(scores[2]) >= tonumber(issued)
end

-- Returns "known", "missing", or "unknown" for a key of another format or type.
local function kind(key)
  local format = redis.pcall('HGET', key, 'f')
  if type(format) == 'table' then
    if string.sub(format.err, 1, 9) == 'WRONGTYPE' then return 'unknown' end
    error(format)
  end
  if format == FORMAT then return 'known' end
  if not format and call('HLEN', key) == 0 then return 'missing' end
  return 'unknown'
end
