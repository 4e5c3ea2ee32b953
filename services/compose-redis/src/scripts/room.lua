-- Returns the limit that runs which have not ended exceed with `runs` and `bytes` more. An owner has at most half of what the
-- others leave. An owner whose share became smaller keeps what it has.
local function reached_by_active(own, all, runs, bytes)
  local own_runs, own_bytes = own.runs - own.ended, own.bytes - own.ended_bytes
  local others_runs, others_bytes = all.runs - all.ended - own_runs, all.bytes - all.ended_bytes - own_bytes
  own_runs, own_bytes = own_runs + runs, own_bytes + bytes
  local function share(limit, others) return math.floor(math.max(0, limit - others) / 2) end
  if own_runs > limits.owner_runs then return 'owner_runs' end
  if own_bytes > limits.owner_bytes then return 'owner_bytes' end
  if runs > 0 and own_runs > share(limits.runs, others_runs) then return 'runs' end
  if bytes > 0 and own_bytes > share(limits.bytes, others_bytes) then return 'bytes' end
end

local function reached(own, all, runs, bytes)
  if own.runs + runs > limits.owner_runs then return 'owner_runs' end
  if own.bytes + bytes > limits.owner_bytes then return 'owner_bytes' end
  if all.runs + runs > limits.runs then return 'runs' end
  if all.bytes + bytes > limits.bytes then return 'bytes' end
end

-- Evicts ended runs, the owner's first, until `runs` and `bytes` more fit. Returns the limit that prevents it.
local function make_room(owner, runs, bytes)
  local limit = reached_by_active(usage('usage:' .. owner), usage('all'), runs, bytes)
  if limit then return limit end
  while true do
    limit = reached(usage('usage:' .. owner), usage('all'), runs, bytes)
    if not limit then return nil end
    local first = call('ZRANGE', P .. 'ended:' .. owner, 0, 0)[1]
    if not first and (limit == 'runs' or limit == 'bytes') then first = call('ZRANGE', P .. 'ended', 0, 0)[1] end
    if not first then return limit end
    remove(first)
  end
end
