local name, sealed, at, cap = A[1], A[2], tonumber(A[3]), A[4]
if alive(P .. 'registration:' .. name) then
  return { 'ok', call('HGET', P .. 'registration:' .. name, 'd') }
end
if full('registrations', name, cap) then return { 'full' } end
write('registration:', 'registrations', name, at, 'd', sealed)
return { 'ok', sealed }
