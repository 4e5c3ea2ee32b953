-- An upstream token is stored as its version, the time of writing, and the record.
local function read(session, provider)
  local key = P .. 'session:' .. session
  local row = alive(key) and call('HGET', key, 'r:' .. provider)
  if not row then return false end
  local version, written = string.match(row, '^(%d+) (%d+) ')
  return row, tonumber(version), tonumber(written)
end

local function store(session, provider, written, record)
  local key = P .. 'session:' .. session
  local version = call('HINCRBY', key, 'v', 1)
  call('HSET', key, 'r:' .. provider, version .. ' ' .. written .. ' ' .. record)
  return version
end
