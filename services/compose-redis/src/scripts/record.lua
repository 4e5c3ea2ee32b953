-- Returns status and epoch, the versions of snapshot and record, the estimated size, the snapshot, the result, and the changes
-- since the snapshot.
local function record(status, epoch, id)
  local f = call('HMGET', P .. 'run:' .. id, 'sv', 'v', 'snapshot', 'result')
  local a = account(id)
  local changes = call('LRANGE', P .. 'changes:' .. id, 0, -1)
  return { 'ok', status, epoch, f[1], f[2], a and a.bytes or 0, f[3], f[4], changes }
end
