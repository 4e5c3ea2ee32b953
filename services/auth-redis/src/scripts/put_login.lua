local from, to, record, at, name = A[1], A[2], A[3], tonumber(A[4]), A[5]
local cap, cap_of = A[6], A[7]
if from ~= '' and not take(from) then return { 'gone' } end
take(to)
if name ~= '' and full('logins-of:' .. name, to, cap_of) then return { 'full of' } end
if full('logins', to, cap) then return { 'full' } end
write('login:', 'logins', to, at, 'd', record, 'c', name)
if name ~= '' then enlist('logins-of:' .. name, to, at) end
return { 'ok' }
