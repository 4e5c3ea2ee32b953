local owner, most = A[1], tonumber(A[2])
local runs, from = {}, 0
while #runs < most do
  local members = call('ZREVRANGE', P .. 'runs:' .. owner, from, from + 99)
  if not members[1] then break end
  from = from + 100
  for _, name in ipairs(members) do
    local id = string.match(name, '^%d+:(.*)$')
    local run = metadata(id)
    if run and #runs < most then
      table.insert(runs, { id, visible_status(run), call('HGET', P .. 'run:' .. id, 'summary') })
    end
  end
end
return runs
