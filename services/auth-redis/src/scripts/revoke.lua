local session = call('HGET', P .. 'grant:' .. A[1], 'i')
if not session or not alive(P .. 'grant:' .. A[1]) then return { false } end
return { finish(session, A[1]) }
