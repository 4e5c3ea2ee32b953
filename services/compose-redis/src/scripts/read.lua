local id, owner = A[1], A[2]
local run, missing = metadata(id)
if not run then return { missing } end
if run.owner ~= owner then return { 'gone' } end
return record(visible_status(run), run.epoch, id)
