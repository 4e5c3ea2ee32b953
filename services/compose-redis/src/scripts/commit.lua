local id, epoch, holder, from, to = A[1], tonumber(A[2]), A[3], tonumber(A[4]), tonumber(A[5])
local mode, sealed, bytes, round, consumed = A[6], A[7], tonumber(A[8]), tonumber(A[9]), tonumber(A[10])
local suspends = A[11] == '1'
sweep(10)
local run, status = metadata(id)
local answer = rejected(run, status, epoch, holder, to)
if answer then return { answer } end
-- A failover may have lost the last writes: then the holder writes the whole record.
if run.version > from then return { 'superseded' } end
if run.version < from and mode == 'append' then return { 'behind' } end
local key = P .. 'run:' .. id
-- Each round is consumed once, whatever the holder knows.
if run.version == from and consumed >= 0 and tonumber(call('HGET', key, 'r')) ~= consumed then return { 'consumed' } end
local a = account(id)
if not a then return { 'gone' } end
local limit = make_room(a.owner, 0, math.max(0, bytes - a.bytes))
if limit then return { 'full', limit } end
if mode == 'append' then
  call('RPUSH', P .. 'changes:' .. id, sealed)
else
  call('DEL', P .. 'changes:' .. id)
  call('HSET', key, 'sv', to, 'snapshot', sealed)
end
call('HSET', key, 's', round >= 0 and 'input_required' or 'running', 'w', now, 'v', to, 'r', round)
resize(id, a, bytes, round >= 0 and 1 or 0)
touch(id, suspends and 0 or now + lease, lifetime)
return { 'ok' }
