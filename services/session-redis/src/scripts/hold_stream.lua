local reason = use(true)
if reason then return { reason } end
local former = call('HGET', record, 'h')
call('HSET', record, 'h', me)
if former and former ~= me then publish('move ' .. former .. ' ' .. id) end
return { 'ok', call('HGETALL', record) }
