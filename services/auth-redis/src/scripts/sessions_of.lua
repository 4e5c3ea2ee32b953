local mine = P .. 'sessions-of:' .. A[1]
call('ZREMRANGEBYSCORE', mine, '-inf', now)
local sessions = {}
for _, session in ipairs(call('ZRANGE', mine, 0, -1)) do
  if alive(P .. 'session:' .. session) then
    table.insert(sessions, call('HGETALL', P .. 'session:' .. session))
  end
end
return sessions
