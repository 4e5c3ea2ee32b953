local reason = use(true)
if reason then return { reason } end
local fields, oldest = call('HGETALL', record), now() / 1000 - window
for i = 1, #fields, 2 do
  -- Uses by replicas that are gone.
  if string.sub(fields[i], 1, 2) == 't:' and tonumber(fields[i + 1]) < oldest then
    call('HDEL', record, fields[i])
  end
end
return { 'ok', fields }
