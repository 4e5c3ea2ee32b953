-- Writes tombstones that a server may have lost: identifier, owner, start, and "1" for anonymous callers.
for i = 1, #A, 4 do
  local id, owner, time, anonymous = A[i], A[i + 1], A[i + 2], A[i + 3] == '1'
  if not has_ended(id, owner, time) then
    if id == '*' then end_all(owner, tonumber(time)) else end_one(id, owner, time, anonymous) end
  end
end
return { 'ok' }
