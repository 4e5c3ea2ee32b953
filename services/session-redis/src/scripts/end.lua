local entries, tombstone, found = {}, false, kind(record)
if not has_ended(id, owner, issued) then
  -- Before the end: the replicas alone know which sessions at backends there are.
  if found == 'missing' then lose(id) end
  tombstone = end_one(id, owner, issued, anonymous)
end
-- A record that another program wrote stays.
if found == 'known' then
  local fields = call('HGETALL', record)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 2) == 'b:' then
      entries[#entries + 1], entries[#entries + 2] = fields[i], fields[i + 1]
    end
  end
  call('DEL', record)
end
return { 'ok', entries, tombstone }
