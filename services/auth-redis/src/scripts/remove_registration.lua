if call('HGET', P .. 'registration:' .. A[1], 'd') == A[2] then
  erase('registration:', 'registrations', A[1])
end
return { 'ok' }
