local cookie, user, at, cap = A[1], A[2], tonumber(A[3]), A[4]
local field, consent, most = A[5], A[6], tonumber(A[7])
if full('browsers', cookie, cap) then return { 'full' } end
write('browser:', 'browsers', cookie, at, 'u', user)
if field == '' then return { 'ok' } end
local key = P .. 'consents:' .. user
call('HDEL', key, field)
local kept, last = {}, 0
local all = call('HGETALL', key)
for place = 1, #all, 2 do
  local given, expires = string.match(all[place + 1], '^(%d+) (%d+) ')
  if tonumber(expires) > now then
    table.insert(kept, { tonumber(given), all[place] })
    last = math.max(last, tonumber(expires))
  else
    call('HDEL', key, all[place])
  end
end
table.sort(kept, function(one, other) return one[1] < other[1] end)
for place = 1, #kept + 1 - most do call('HDEL', key, kept[place][2]) end
call('HSET', key, field, consent)
lapse(key, math.max(last, tonumber(string.match(consent, '^%d+ (%d+) '))))
return { 'ok' }
