local found, newest, whose = false, -1, false
for _, session in ipairs(call('ZRANGE', P .. 'sessions-of:' .. A[1], 0, -1)) do
  local row, _, written = read(session, A[2])
  if row and written > newest then found, newest, whose = row, written, session end
end
return { whose, found }
