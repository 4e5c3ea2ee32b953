local id, epoch, holder = A[1], tonumber(A[2]), A[3]
local run, missing = metadata(id)
local answer = rejected(run, missing, epoch, holder, -1)
if answer then return { answer } end
-- Without a holder, a write that is late fails.
call('HSET', P .. 'run:' .. id, 'h', '', 'w', now)
touch(id, 0, lifetime)
extend_shared(run.owner)
return { 'ok' }
