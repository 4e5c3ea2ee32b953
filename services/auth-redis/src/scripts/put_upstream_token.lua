local session, user, head, provider, written, record, at = A[1], A[2], A[3], A[4], A[5], A[6], tonumber(A[7])
local cap, cap_of, most = A[8], tonumber(A[9]), tonumber(A[10])
local issuer, lifetime = A[11], tonumber(A[12])
local key = P .. 'session:' .. session
if not keep(session, at) then
  local mine = P .. 'sessions-of:' .. user
  call('ZREMRANGEBYSCORE', mine, '-inf', now)
  if call('ZCARD', mine) >= cap_of then
    local first = call('ZRANGE', mine, 0, 0)
    if first[1] then finish(first[1]) end
  end
  if full('sessions', session, cap) then return { 'full' } end
  write('session:', 'sessions', session, at, 'u', user, 'h', head, 's', now, 'v', 0)
  enlist('sessions-of:' .. user, session, at)
end
if call('HEXISTS', key, 'r:' .. provider) == 0 then
  local rows = 0
  for _, field in ipairs(call('HKEYS', key)) do
    if string.sub(field, 1, 2) == 'r:' then rows = rows + 1 end
  end
  if rows >= most then return { 'full of' } end
end
if call('HEXISTS', P .. 'providers', provider) == 0 then
  call('HSET', P .. 'providers', provider, issuer)
end
call('PEXPIRE', P .. 'providers', lifetime)
return { 'ok', store(session, provider, written, record) }
