local id, epoch, holder = A[1], tonumber(A[2]), A[3]
sweep(10)
local run, missing = metadata(id)
local answer = rejected(run, missing, epoch, holder, -1)
if answer then return { answer } end
touch(id, now + lease, lifetime)
extend_shared(run.owner)
return { 'ok' }
