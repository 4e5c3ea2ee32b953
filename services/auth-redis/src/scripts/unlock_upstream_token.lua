local key = P .. 'lock:' .. A[1] .. ':' .. A[2]
if call('HGET', key, 'o') == A[3] then call('DEL', key) end
return { 'ok' }
