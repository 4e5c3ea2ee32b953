local name, record, at, cap, rested = A[1], A[2], tonumber(A[3]), A[4], tonumber(A[5])
if full('clients', name, cap) then
  -- Each expires so long after its last use: who expires first was unused for longest.
  local first = call('ZRANGE', P .. 'clients', 0, 0, 'WITHSCORES')
  if not first[1] or tonumber(first[2]) > rested then return { 'full' } end
  erase('client:', 'clients', first[1])
end
write('client:', 'clients', name, at, 'd', record)
return { 'ok' }
