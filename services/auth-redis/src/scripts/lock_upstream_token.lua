local session, provider, owner, at = A[1], A[2], A[3], tonumber(A[4])
if not alive(P .. 'session:' .. session) then return { 'ok', false } end
local key = P .. 'lock:' .. session .. ':' .. provider
if alive(key) and call('HGET', key, 'o') ~= owner then return { 'held' } end
call('HSET', key, 'o', owner, 'x', at)
lapse(key, at)
return { 'ok', (read(session, provider)) }
