local from, to, record, at, origin, owner = A[1], A[2], A[3], tonumber(A[4]), A[5], A[6]
local cap, cap_of = A[7], A[8]
if from ~= '' and not take(from) then return { 'gone' } end
take(to)
if origin ~= '' then make_room('logins-of:' .. origin, cap_of) end
make_room('logins', cap)
write('login:', 'logins', to, at, 'd', record, 'o', origin)
if origin ~= '' then enlist('logins-of:' .. origin, to, at) end
if owner ~= '' then hold(owner, at) end
return { 'ok' }
