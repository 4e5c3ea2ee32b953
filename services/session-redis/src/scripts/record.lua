-- Shared by the steps of one session.
local id, owner, issued, anonymous = A[1], A[2], A[3], A[4] == '1'
for i = 1, #A do A[i] = A[i + 4] end
local record = P .. 'session:' .. id

-- Returns why the record cannot be read, if so, and whether it is missing.
local function rejected()
  if has_ended(id, owner, issued) then return 'ended' end
  local found = kind(record)
  if found == 'unknown' then return 'format' end
  return nil, found == 'missing'
end

-- Tells the replicas that they alone know what the record contained, all but the one that is entering it.
local function lose(session, entering)
  publish('lost ' .. (entering or '-') .. ' ' .. session)
end

-- Creates a missing record, and restarts the time to live. Returns why not, if so.
local function use(lost, entering)
  local reason, missing = rejected()
  if reason then return reason end
  if missing then
    call('HSET', record, 'f', FORMAT, 's', 0)
    if lost then
      call('HSET', record, 'lost', 1)
      lose(id, entering)
    end
  end
  call('HSET', record, 't:' .. me, text(now() / 1000))
  call('PEXPIRE', record, ttl)
end

-- Returns the size that a field has in the record.
local function size_of(field)
  local length = call('HSTRLEN', record, field)
  return length > 0 and length + #field or 0
end

-- Stores a value, unless the record would grow beyond the limit. Returns whether it did.
local function put(field, value, limit)
  local before = tonumber(call('HGET', record, 's'))
  local after = before - size_of(field) + #field + #value
  if after > math.max(before, tonumber(limit)) then return false end
  call('HSET', record, field, value, 's', text(after))
  return true
end

local function remove(field)
  call('HINCRBY', record, 's', -size_of(field))
  call('HDEL', record, field)
end

-- Tells the replica that has the client's stream.
local function changed()
  local holder = call('HGET', record, 'h')
  if holder and holder ~= me then publish('change ' .. holder .. ' ' .. id) end
end
