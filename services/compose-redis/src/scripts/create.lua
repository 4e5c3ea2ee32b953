local id, owner, started_at, bytes, holder, version, snapshot, summary =
  A[1], A[2], tonumber(A[3]), tonumber(A[4]), A[5], A[6], A[7], A[8]
sweep(100)
local run, status = metadata(id)
if run then
  -- The response to the same request may have been lost.
  return { run.holder == holder and run.epoch == 1 and 'ok' or 'leased' }
end
if status == 'format' then return { 'format' } end
remove(id)
local limit = make_room(owner, 1, bytes)
if limit then return { 'full', limit } end
local number = call('HINCRBY', P .. 'all', 'next', 1)
call('HSET', P .. 'all', 'f', FORMAT)
call('HSET', P .. 'run:' .. id, 'f', FORMAT, 'o', owner, 's', 'running', 'e', 1, 'h', holder, 'w', now, 'v', version, 'r', -1,
  'sv', version, 'snapshot', snapshot, 'summary', summary)
put_account(id, { owner = owner, number = number, bytes = bytes, result = 0, ended = 0, waits = 0 })
call('ZADD', P .. 'runs:' .. owner, started_at, member(number, id))
count(owner, 'runs', 1)
count(owner, 'bytes', bytes)
rank(owner)
touch(id, now + lease, lifetime)
extend_shared(owner)
return { 'ok' }
