local reason, missing = rejected()
if reason then return { reason } end
if missing then return { 'ok', false, 1 } end
local value, lost = unpack(call('HMGET', record, 'b:' .. A[1], 'lost'))
return { 'ok', value, lost and 1 or 0 }
