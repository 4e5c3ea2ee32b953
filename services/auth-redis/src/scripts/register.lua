local name, record, at, cap = A[1], A[2], tonumber(A[3]), A[4]
call('ZREM', P .. 'clients', name)
call('ZREM', P .. 'new-clients', name)
for _, first in ipairs(beyond('new-clients', cap)) do erase('client:', 'new-clients', first) end
write('client:', 'new-clients', name, at, 'd', record)
return { 'ok' }
