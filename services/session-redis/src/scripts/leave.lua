local reason, missing = rejected()
if reason then return { reason } end
if missing then return { 'ok' } end
call('HDEL', record, 't:' .. me)
if call('HGET', record, 'h') == me then call('HDEL', record, 'h') end
local fields, oldest = call('HGETALL', record), now() / 1000 - window
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 2) == 't:' and tonumber(fields[i + 1]) > oldest then return { 'ok' } end
end
call('DEL', record)
return { 'ok', fields }
