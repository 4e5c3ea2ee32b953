local id, owner, holder, force = A[1], A[2], A[3], A[4] == '1'
sweep(10)
local run, missing = metadata(id)
if not run then return { missing } end
if run.owner ~= owner then return { 'gone' } end
if run.ended then return { 'finished', run.status } end
-- The response to the same request may have been lost.
if run.holder ~= holder then
  if not force and now < run.leased_until then return { 'leased' } end
  run.epoch = run.epoch + 1
  call('HSET', P .. 'run:' .. id, 'e', run.epoch, 'h', holder)
  touch(id, now + lease, lifetime)
  extend_shared(owner)
end
return record(run.status, run.epoch, id)
