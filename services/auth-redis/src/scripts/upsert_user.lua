local subject, proposed, profile, at, cap = A[1], A[2], A[3], tonumber(A[4]), A[5]
local provider, issuer, before = A[6], A[7], P .. 'subject:' .. A[8]
local user = call('HGET', P .. 'subject:' .. subject, 'u')
if not user and call('HGET', P .. 'providers', provider) == issuer then
  -- A version without issuers stored this user by the provider's name.
  user = call('HGET', before, 'u')
  call('DEL', before)
end
if not user or not alive(P .. 'user:' .. user) then
  if full('users', proposed, cap) then return { 'full' } end
  user = proposed
  write('user:', 'users', user, at, 'c', now)
end
call('HSET', P .. 'user:' .. user, 'p', profile)
move('user:', 'users', user, at)
call('HSET', P .. 'subject:' .. subject, 'u', user)
lapse(P .. 'subject:' .. subject, at)
return { 'ok', user }
