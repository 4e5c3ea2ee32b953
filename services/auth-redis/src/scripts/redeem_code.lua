local code, presenter, challenge = A[1], A[2], A[3]
local tombstone, redeeming = tonumber(A[4]), tonumber(A[5])
local lifetime, cap, rest = tonumber(A[6]), A[7], tonumber(A[8])
local key = P .. 'code:' .. code
local known = client(presenter)
if not alive(key) then return { 'unknown', '', known } end
local state, seed, session, owner, taker, answered, grant, said, x =
  unpack(call('HMGET', key, 's', 'd', 'i', 'c', 't', 'h', 'g', 'r', 'x'))
if state == 'waiting' then
  call('HSET', key, 's', 'redeeming', 't', presenter, 'h', challenge)
  call('HDEL', key, 'd')
  move('code:', 'codes', code, math.max(tonumber(x), now + tombstone))
  keep(session, now + redeeming)
  if owner == presenter then renew(owner, lifetime, cap, rest) end
  return { 'fresh', seed, known }
end
if state == 'redeeming' and taker == presenter and answered == challenge then
  return { 'redeeming', '', known }
end
if state ~= 'over' then
  said = finish(session, grant) or saying(session, grant)
  call('HSET', key, 's', 'over', 'r', said)
end
return { 'replayed', said, known }
