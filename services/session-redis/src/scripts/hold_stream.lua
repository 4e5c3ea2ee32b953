local reason = use(true)
if reason then return { reason } end
local former = call('HGET', record, 'h')
call('HSET', record, 'h', me)
-- Tells a late message from one about this step.
local number = text(call('HINCRBY', record, 'hn', 1))
if former and former ~= me then publish('move ' .. former .. ' ' .. number .. ' ' .. id) end
return { 'ok', number, call('HGETALL', record) }
