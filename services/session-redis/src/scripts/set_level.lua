local reason = use(true)
if reason then return { reason } end
if not put('l', A[1], A[2]) then return { 'full' } end
publish('level ' .. me .. ' ' .. id)
return { 'ok' }
