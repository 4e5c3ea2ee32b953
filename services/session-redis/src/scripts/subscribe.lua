local count, field, value, limit, most = 'n:' .. A[1], 'u:' .. A[2], A[3], A[4], tonumber(A[5])
local reason = use(true)
if reason then return { reason } end
if (call('HEXISTS', record, field) == 1) == (value ~= '') then return { 'ok' } end
if value == '' then
  remove(field)
  if call('HINCRBY', record, count, -1) == 0 then call('HDEL', record, count) end
else
  if tonumber(call('HGET', record, count) or 0) >= most then return { 'many' } end
  if not put(field, value, limit) then return { 'full' } end
  call('HINCRBY', record, count, 1)
end
changed()
return { 'ok' }
