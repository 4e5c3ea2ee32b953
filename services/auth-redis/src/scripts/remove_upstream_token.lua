local session, provider, version = A[1], A[2], tonumber(A[3])
local row, there = read(session, provider)
if not row or (version and there ~= version) then return { 0 } end
call('HDEL', P .. 'session:' .. session, 'r:' .. provider)
return { 1 }
