local id, epoch, holder, from, to = A[1], tonumber(A[2]), A[3], tonumber(A[4]), tonumber(A[5])
local status, snapshot, summary, bytes, result, size, force =
  A[6], A[7], A[8], tonumber(A[9]), A[10], tonumber(A[11]), A[12] == '1'
sweep(10)
local run, missing = metadata(id)
if force then
  -- The owner cancels a run that another process may hold. Its next write fails.
  if not run then return { missing } end
  if run.holder == holder and run.version == to then return { 'ok' } end
  if run.ended then return { 'finished', run.status } end
  if run.version ~= from then return { 'behind' } end
  epoch = run.epoch + 1
else
  local answer = rejected(run, missing, epoch, holder, to)
  if answer then return { answer } end
  if run.version > from then return { 'superseded' } end
end
local a = account(id)
if not a then return { 'gone' } end
local key, owner = P .. 'run:' .. id, a.owner
local function add_result(account)
  call('HSET', key, 'result', result)
  call('ZADD', P .. 'kept:' .. owner, account.ended, id)
end
resize(id, a, bytes, 0)
a.ended = call('HINCRBY', P .. 'all', 'next', 1)
a.result = result ~= '' and size or 0
put_account(id, a)
count(owner, 'ended', 1)
count(owner, 'ended_bytes', bytes)
call('ZADD', P .. 'ended', a.ended, id)
call('ZADD', P .. 'ended:' .. owner, a.ended, id)
call('DEL', P .. 'changes:' .. id)
call('HSET', key, 's', status, 'e', epoch, 'h', holder, 'w', now, 'v', to, 'r', -1, 'sv', to, 'snapshot', snapshot,
  'summary', summary)
if result ~= '' then add_result(a) end
rank(owner)
touch(id, 0, ended_lifetime)
extend_shared(owner)

-- Results beyond the limits in bytes are dropped: one that does not fit by itself, then the oldest of the owner, then those of
-- the owner with the most bytes.
local function drop(run)
  local of = account(run)
  call('HDEL', P .. 'run:' .. run, 'result')
  if not of then return end
  call('ZREM', P .. 'kept:' .. of.owner, run)
  count(of.owner, 'bytes', -of.result)
  count(of.owner, 'ended_bytes', -of.result)
  of.bytes, of.result = of.bytes - of.result, 0
  put_account(run, of)
  rank(of.owner)
end
local function drop_oldest(of)
  local oldest = call('ZRANGE', P .. 'kept:' .. of, 0, 0)[1]
  if oldest then drop(oldest) end
  return oldest
end
local most = math.min(limits.owner_bytes, limits.bytes)
local function owner_bytes() return usage('usage:' .. owner).bytes end
if owner_bytes() > most and a.result > 0 then
  local kept = 0
  for _, run in ipairs(call('ZRANGE', P .. 'kept:' .. owner, 0, -1)) do
    local of = account(run)
    if of and run ~= id then kept = kept + of.result end
  end
  if owner_bytes() - kept > most then drop(id) end
end
while owner_bytes() > most and drop_oldest(owner) do end
while usage('all').bytes > limits.bytes do
  local largest = call('ZREVRANGE', P .. 'kept-owners', 0, 0)[1]
  if not largest or not drop_oldest(largest) then break end
end
return { 'ok' }
