local key = P .. 'consents:' .. A[1]
for _, field in ipairs(call('HKEYS', key)) do
  if string.sub(field, 1, #A[2]) == A[2] then call('HDEL', key, field) end
end
return { 'ok' }
