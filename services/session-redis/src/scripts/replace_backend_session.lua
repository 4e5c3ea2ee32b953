local field, expected, value, limit = 'b:' .. A[1], A[2], A[3], A[4]
local reason = use(true)
if reason then return { reason } end
local present = call('HGET', record, field)
local tag = present and string.sub(present, 1, 16) or ''
-- A repeated step has been taken.
if value == '' and not present or value ~= '' and string.sub(value, 1, 16) == tag then return { 'ok' } end
if tag ~= expected then return { 'conflict', present } end
if value == '' then
  remove(field)
elseif not put(field, value, limit) then
  return { 'full' }
end
changed()
return { 'ok' }
