local code, session, grant, at, session_end, cap = A[1], A[2], A[3], tonumber(A[4]), tonumber(A[5]), A[6]
local key = P .. 'code:' .. code
local state, of, given = unpack(call('HMGET', key, 's', 'i', 'g'))
-- Repeated after a lost response.
if alive(key) and state == 'done' and given == grant and alive(P .. 'grant:' .. grant) then
  return { 'ok' }
end
if not alive(key) or state ~= 'redeeming' or of ~= session or not alive(P .. 'session:' .. session) then
  return { 'refused' }
end
if full('grants', grant, cap) then return { 'full' } end
write('grant:', 'grants', grant, at, 'i', session, unpack(A, 7))
keep(session, session_end)
call('HSET', P .. 'session:' .. session, 'g', grant)
call('HSET', key, 's', 'done', 'g', grant)
return { 'ok' }
