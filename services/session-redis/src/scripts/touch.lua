local time = text(now() / 1000)
for _, id in ipairs(A) do
  local record = P .. 'session:' .. id
  local found = kind(record)
  if found == 'known' then
    call('HSET', record, 't:' .. me, time)
    call('PEXPIRE', record, ttl)
  elseif found == 'missing' then
    publish('lost - ' .. id)
  end
end
return { 'ok' }
