local code, seed, at, session, owner, cap = A[1], A[2], tonumber(A[3]), A[4], A[5], A[6]
if not keep(session, at) then return { 'gone' } end
hold(owner, at)
if full('codes', code, cap) then return { 'full' } end
write('code:', 'codes', code, at, 's', 'waiting', 'd', seed, 'i', session, 'c', owner)
return { 'ok' }
