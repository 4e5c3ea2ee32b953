local time = text(now() / 1000)
for _, id in ipairs(A) do
  local record = P .. 'session:' .. id
  if kind(record) == 'known' then
    call('HSET', record, 't:' .. me, time)
    call('PEXPIRE', record, ttl)
  end
end
return { 'ok' }
