-- Returns nil if the holder of a lease may write, and otherwise the status of the step. The version tells a write that was made
-- and whose response was lost from one that was not made.
local function rejected(run, status, epoch, holder, to)
  if not run then return status end
  if run.holder == holder and run.epoch == epoch and run.version == to then return 'ok' end
  if run.epoch ~= epoch then return 'superseded' end
  if run.ended then return 'finished' end
  -- After a failover that lost a lease, two holders may have the same epoch.
  if run.holder ~= holder then return 'superseded' end
end
