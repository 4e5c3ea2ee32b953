local function take(name)
  local d, x, o = unpack(call('HMGET', P .. 'login:' .. name, 'd', 'x', 'o'))
  if not d then return false end
  erase('login:', 'logins', name)
  if o and o ~= '' then call('ZREM', P .. 'logins-of:' .. o, name) end
  return tonumber(x) > now and d
end

-- Evicts the oldest logins until one more fits.
local function make_room(index, cap)
  for _, name in ipairs(beyond(index, cap)) do
    take(name)
    call('ZREM', P .. index, name)
  end
end
