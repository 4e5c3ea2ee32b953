local function take(name)
  local d, x, c = unpack(call('HMGET', P .. 'login:' .. name, 'd', 'x', 'c'))
  if not d then return false end
  erase('login:', 'logins', name)
  if c ~= '' then call('ZREM', P .. 'logins-of:' .. c, name) end
  return tonumber(x) > now and d
end
