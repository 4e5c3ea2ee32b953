local key = P .. 'grant:' .. A[1]
local known = client(A[2])
if not alive(key) then return { known } end
return { known, unpack(call('HMGET', key, 'd', 'idle', 'ie', 'n', 'k', 'p', 'pr')) }
