-- Enters what the replica has: the level, "1" if it has the client's stream, the limits, the number of entries, the backend and
-- value of each, and the backend, name and value of each subscription.
local level, holds, limit, most, entries = A[1], A[2] == '1', A[3], tonumber(A[4]), tonumber(A[5])
local reason = use(true, me)
if reason then return { reason } end

local has_level = level ~= '' and call('HEXISTS', record, 'l') == 0 and put('l', level, limit)
local is_changed = has_level
local first = 6 + 2 * entries
for i = 6, first - 1, 2 do
  local field = 'b:' .. A[i]
  if call('HEXISTS', record, field) == 0 and put(field, A[i + 1], limit) then is_changed = true end
end
-- Of a record that was not lost, another replica removed the subscriptions that are missing.
if call('HEXISTS', record, 'lost') == 1 and call('HEXISTS', record, 'm:' .. me) == 0 then
  call('HSET', record, 'm:' .. me, 1)
  for i = first, #A, 3 do
    local count, field = 'n:' .. A[i], 'u:' .. A[i + 1]
    local is_new = call('HEXISTS', record, field) == 0 and tonumber(call('HGET', record, count) or 0) < most
    if is_new and put(field, A[i + 2], limit) then
      call('HINCRBY', record, count, 1)
      is_changed = true
    end
  end
end

local number, holder = false, call('HGET', record, 'h')
if holds and (not holder or holder == me) then
  call('HSET', record, 'h', me)
  number = text(call('HINCRBY', record, 'hn', 1))
end
if is_changed then changed() end
if has_level then publish('level ' .. me .. ' ' .. id) end
return { 'ok', number, call('HGETALL', record) }
