local grant, presented, generation, successor = A[1], A[2], tonumber(A[3]), A[4]
local grace, lifetime, cap, rest = tonumber(A[5]), tonumber(A[6]), A[7], tonumber(A[8])
local key = P .. 'grant:' .. grant
local current, n, previous, rotated, session, owner, ends, access, idle =
  unpack(call('HMGET', key, 'k', 'n', 'p', 'pr', 'i', 'c', 'e', 'l', 'idle'))
if not current or not alive(key) then return { 'gone' } end
local function record(word)
  return { word, unpack(call('HMGET', key, 'd', 'idle', 'ie', 'n', 'k', 'p', 'pr')) }
end
if current == presented or tonumber(n) < generation then
  local at = math.min(tonumber(ends), now + tonumber(idle))
  call('HSET', key, 'p', presented, 'pr', now, 'k', successor, 'n', generation + 1, 'ie', at)
  move('grant:', 'grants', grant, at)
  keep(session, math.max(at, now + tonumber(access)))
  renew(owner, lifetime, cap, rest)
  return record('rotated')
end
if previous == presented and now - tonumber(rotated) <= grace then return record('repeated') end
local said = finish(session, grant)
if said then return { 'replayed', said } end
return { 'gone' }
