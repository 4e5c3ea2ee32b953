local key = P .. 'browser:' .. A[1]
if not alive(key) then return {} end
local user = call('HGET', key, 'u')
local known = { user }
for _, consent in ipairs(call('HVALS', P .. 'consents:' .. user)) do
  local expires, record = string.match(consent, '^%d+ (%d+) (.*)$')
  if tonumber(expires) > now then table.insert(known, record) end
end
return known
