-- Returns the names that belong to another issuer, each followed by that issuer.
local lifetime = tonumber(A[1])
local key = P .. 'providers'
-- Users and tokens of versions without issuers belong to the configured providers.
local adopt = #call('HKEYS', key) == 0 and call('ZCARD', P .. 'users') + call('ZCARD', P .. 'sessions') > 0
local others = {}
for place = 2, #A, 2 do
  local provider, issuer = A[place], A[place + 1]
  local known = call('HGET', key, provider)
  if adopt then
    call('HSET', key, provider, issuer)
  elseif known and known ~= issuer then
    table.insert(others, provider)
    table.insert(others, known)
  end
end
call('PEXPIRE', key, lifetime)
return others
