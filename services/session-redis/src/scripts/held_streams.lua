-- Returns those of the sessions whose streams another replica has.
local moved = {}
for _, id in ipairs(A) do
  local record = P .. 'session:' .. id
  local holder = kind(record) == 'known' and call('HGET', record, 'h')
  if holder and holder ~= me then moved[#moved + 1] = id end
end
return { 'ok', moved }
