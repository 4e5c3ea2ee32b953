local subject, proposed, profile, at, cap = A[1], A[2], A[3], tonumber(A[4]), A[5]
local names = A[6]
local user = call('HGET', P .. 'subject:' .. subject, 'u')
if not user or not alive(P .. 'user:' .. user) then
  if full('users', proposed, cap) then return { 'full' } end
  user = proposed
  write('user:', 'users', user, at, 's', names, 'c', now)
end
call('HSET', P .. 'user:' .. user, 'p', profile)
move('user:', 'users', user, at)
call('HSET', P .. 'subject:' .. subject, 'u', user)
lapse(P .. 'subject:' .. subject, at)
return { 'ok', user }
