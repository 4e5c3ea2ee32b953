local key = P .. 'code:' .. A[1]
local state, session = unpack(call('HMGET', key, 's', 'i'))
if alive(key) and (state == 'waiting' or state == 'redeeming') then
  call('HSET', key, 's', 'over', 'r', finish(session) or saying(session))
end
return { 'ok' }
